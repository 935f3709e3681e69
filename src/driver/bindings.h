// --shapes and --bind, as written, to what bind-shapes takes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tcc/driver/options.h"
#include "tcc/graph/graph.h"
#include "tcc/support/command_files.h"

namespace tcc::driver {

/// `x:8x3x224x224,mask:8x77`: input names to sizes. A name may hold any character: its sizes follow its last ':', and a ',' that doesn't
/// end such a pair belongs to the name. `x:` is a scalar.
std::map<std::string, Shape> parse_shapes(const std::vector<std::string>& texts);

/// Everything that is bound, once the inputs are known. A value of --bind is a file (.npy, .pb, .npz) or a number, true or false of the
/// input's dtype; a name that is no input may be a size symbol. Errors (usage): an unknown name, a value that is neither.
/// `files` (may be null) receives the files that are read. `sizes`: symbols beside those of the inputs.
Bindings resolve_bindings(const Graph& signature, const Options& options, CommandFiles* files = nullptr,
                          const std::vector<std::string>& sizes = {});
/// Whether a value of --bind is a file.
bool is_tensor_file(const std::string& value);

}  // namespace tcc::driver
