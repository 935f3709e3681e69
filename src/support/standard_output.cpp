#include "tcc/support/standard_output.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tcc/support/diagnostics.h"

namespace tcc {

void write_stdout(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      throw Error(ExitCode::environment, "unwritable-file", "<stdout>", std::string("can't be written: ") + std::strerror(errno));
    }
    text.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace tcc
