#include "../generic/generic_includes.h"

#include "layout.c"

Real beta = 5.7;
