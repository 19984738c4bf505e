// The runtime of generated CPU kernels: include this one.
#pragma once
#include "cpu/vec.h"
#include "cpu/ops.h"
#include "cpu/math.h"
#include "cpu/random.h"
#include "cpu/reduce.h"
