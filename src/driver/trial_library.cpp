#include "driver/trial_library.h"

#include <unistd.h>

#include <cstdlib>

#include "tcc/support/diagnostics.h"

namespace tcc::driver {

namespace {

/// A library for a moment: once it is loaded the file is not needed.
class TemporaryLibrary {
 public:
  TemporaryLibrary() {
    const char* folder = std::getenv("TMPDIR");
    path_ = std::string(folder != nullptr && *folder != 0 ? folder : "/tmp") + "/tcc-verify-XXXXXX";
    const int file = ::mkstemp(path_.data());
    if (file < 0) throw Error(ExitCode::environment, "unwritable-file", path_, "a temporary file can't be made");
    ::close(file);
  }
  ~TemporaryLibrary() { ::unlink(path_.c_str()); }
  TemporaryLibrary(const TemporaryLibrary&) = delete;
  TemporaryLibrary& operator=(const TemporaryLibrary&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

TrialLibrary::TrialLibrary(const Options& options, const VerifyOptions& verify,
                           const std::function<void(const Options&, const std::string& path)>& compile) {
  const TemporaryLibrary file;
  Options only_used = options;
  only_used.weights = WeightsPlace::embed;
  if (verify.device == runtime::Device::cpu) only_used.cuda = false;
  if (verify.device == runtime::Device::cuda) only_used.cpu = false;
  compile(only_used, file.path());
  library_ = runtime::Library::open(file.path());
  runtime::InstanceOptions instance_options;
  instance_options.device = verify.device;
  instance_options.num_threads = verify.threads;
  instance_ = std::make_unique<runtime::Instance>(library_, instance_options);
}

Tolerance with_options(Tolerance tolerance, const VerifyOptions& options) {
  if (options.rtol) tolerance.rtol = *options.rtol;
  if (options.atol) {
    tolerance.atol = *options.atol;
    tolerance.of_largest = 0;
  }
  return tolerance;
}

}  // namespace tcc::driver
