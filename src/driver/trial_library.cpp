#include "driver/trial_library.h"

#include "tcc/support/temporary.h"

namespace tcc::driver {

TrialLibrary::TrialLibrary(const Options& options, const VerifyOptions& verify,
                           const std::function<void(const Options&, const std::string& path)>& compile) {
  TemporaryFolder folder;  // once the library is loaded its file is not needed
  const std::string file = folder.file("trial.so");
  Options only_used = options;
  only_used.weights = WeightsPlace::embed;
  if (verify.device == runtime::Device::cpu) only_used.cuda = false;
  if (verify.device == runtime::Device::cuda) only_used.cpu = false;
  compile(only_used, file);
  library_ = runtime::Library::open(file);
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
