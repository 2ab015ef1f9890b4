/* Every environment's header, in the order of env_list.h. */
#ifndef DQN_ENVS_ALL_H
#define DQN_ENVS_ALL_H

#include "acrobot.h"
#include "cartpole.h"
#include "mountain_car.h"
#include "trading.h"

#endif
