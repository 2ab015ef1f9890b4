extern int dqn_not_written_yet;
