// A library that is compiled to be run once, and goes away.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tcc/driver/options.h"
#include "tcc/driver/verify.h"
#include "tcc/runtime/library.h"

namespace tcc::driver {

class TrialLibrary {
 public:
  /// `compile` writes the library to a path, with options that leave out targets which will not run.
  TrialLibrary(const Options& options, const VerifyOptions& verify,
               const std::function<void(const Options&, const std::string& path)>& compile);
  const runtime::Library& library() const { return *library_; }
  runtime::Instance& instance() const { return *instance_; }

 private:
  std::shared_ptr<const runtime::Library> library_;
  std::unique_ptr<runtime::Instance> instance_;
};

/// The tolerance with what the command line puts in its place.
Tolerance with_options(Tolerance tolerance, const VerifyOptions& options);

}  // namespace tcc::driver
