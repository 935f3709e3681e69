// The text of --loss-scale.

#include "tcc/autograd/loss_scale.h"

#include <charconv>
#include <string>

#include "tcc/support/diagnostics.h"

namespace tcc {

LossScale parse_loss_scale(std::string_view text) {
  LossScale result;
  if (text == "dynamic") {
    result.scale = 65536;
    result.dynamic = true;
    return result;
  }
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), result.scale);
  if (fault == std::errc() && end == text.data() + text.size() && result.scale > 0 && result.scale <= 3e38) return result;
  throw Error(ExitCode::usage, "invalid-argument", "",
              "--loss-scale=" + std::string(text) + ": known are dynamic and a factor above 0, as 1024");
}

}  // namespace tcc
