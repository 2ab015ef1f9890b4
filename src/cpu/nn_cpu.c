#include "cpu.h"

const struct dqn_nn_ops dqn_cpu_nn_ops = {0};
