// What to do about an op that can't be imported.
#pragma once

#include <string>
#include <string_view>

namespace tcc::onnx {

/// The kind of the message about an op that can't be imported: data-dependent-size where no size is known for its results, else unsupported-op.
const char* kind_of_unknown(std::string_view domain, std::string_view op);

/// The text of the help line: how to export a model without the op, or which op was meant.
std::string remedy_for(std::string_view domain, std::string_view op);

}  // namespace tcc::onnx
