// The solve that the plugin asks the library for.
#pragma once
#include "milc_glue/plugin/state.h"

namespace milcgpu {

milcgpu_solve_spec solve_spec(const Plugin &plugin, const Policy &policy, const milcgpu_plugin_solve_call &call);

} // namespace milcgpu
