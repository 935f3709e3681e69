#include "tcc/runtime/library.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "tcc/support/files.h"

namespace tcc::runtime {
namespace {

// The C interface numbers dtypes as DType does.
static_assert(static_cast<int>(DType::f32) == TCC_F32 && static_cast<int>(DType::bf16) == TCC_BF16 &&
              static_cast<int>(DType::i64) == TCC_I64);
static_assert(static_cast<int>(DType::u64) == TCC_U64 && static_cast<int>(DType::boolean) == TCC_BOOL);
static_assert(static_cast<int>(DType::f8e5m2fnuz) == TCC_F8E5M2FNUZ && static_cast<int>(DType::u4) == TCC_U4);

ExitCode exit_code_of(int status) {
  switch (status) {
    case TCC_INVALID_ARGUMENT: return ExitCode::usage;
    case TCC_INTERNAL_ERROR: return ExitCode::internal;
    default: return ExitCode::environment;
  }
}

const char* kind_of(int status) {
  switch (status) {
    case TCC_INVALID_ARGUMENT: return "invalid-argument";
    case TCC_NO_DEVICE: return "no-device";
    case TCC_OUT_OF_MEMORY: return "out-of-memory";
    case TCC_DRIVER_ERROR: return "driver-error";
    case TCC_FILE_ERROR: return "file-error";
    default: return "internal-error";
  }
}

TensorInfo convert(const tcc_tensor_info& info) {
  return {info.name, static_cast<DType>(info.dtype), Shape(info.shape, info.shape + info.rank), static_cast<int64_t>(info.size_bytes)};
}

// Views of host tensors, or of device memory when `addresses` has one.
std::vector<tcc_tensor> describe(const std::vector<Tensor>& tensors, const std::vector<void*>* addresses, int device_ordinal) {
  std::vector<tcc_tensor> views;
  for (size_t i = 0; i < tensors.size(); i++) {
    tcc_tensor view = {};
    view.data = const_cast<std::byte*>(tensors[i].bytes());
    view.shape = tensors[i].shape().data();
    view.rank = tensors[i].rank();
    view.dtype = static_cast<int32_t>(tensors[i].dtype());
    view.device = TCC_DEVICE_CPU;
    if (addresses) {
      view.data = (*addresses)[i];
      view.device = TCC_DEVICE_CUDA;
      view.device_ordinal = device_ordinal;
    }
    views.push_back(view);
  }
  return views;
}

}  // namespace

std::shared_ptr<const Library> Library::open(const std::string& path) {
  const auto fail = [&](const std::string& message, const std::string& help = "") {
    throw Error(ExitCode::environment, "unusable-library", path, message, help);
  };
  struct stat status;
  if (stat(path.c_str(), &status) != 0) fail(std::string("cannot be opened: ") + strerror(errno));
  if (S_ISDIR(status.st_mode)) fail("is a directory, expected a library made by tcc");
  // Without a slash dlopen would search the system's folders.
  const std::string name = path.find('/') == std::string::npos ? "./" + path : path;
  // Not `new` by a static function of make_shared: the constructor is private.
  std::shared_ptr<Library> library(new Library);
  library->path_ = path;
  library->handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library->handle_) fail(std::string("cannot be loaded: ") + dlerror(), "`tcc run` takes the .so that `tcc -o` wrote");
  const auto query = reinterpret_cast<tcc_query_function>(dlsym(library->handle_, "tcc_model_query"));
  if (!query) fail("is a library, but none made by tcc: it does not export `tcc_model_query`");
  library->api_ = query(TCC_ABI_VERSION);
  if (!library->api_) fail("speaks another version of the interface than this tcc", "compile the model again");

  library->info_.struct_size = sizeof(tcc_model_info);
  if (library->api_->model_info(&library->info_)) fail(library->api_->last_error());
  library->model_name_ = library->info_.name;
  for (const bool input : {true, false}) {
    for (uint32_t i = 0; i < (input ? library->info_.num_inputs : library->info_.num_outputs); i++) {
      tcc_tensor_info info = {};
      info.struct_size = sizeof info;
      if ((input ? library->api_->describe_input : library->api_->describe_output)(i, &info)) fail(library->api_->last_error());
      (input ? library->inputs_ : library->outputs_).push_back(convert(info));
    }
  }
  return library;
}

Library::~Library() {
  if (handle_) dlclose(handle_);
}

// Tensors that stay where the device reads and writes them.
struct Instance::Prepared {
  std::vector<Tensor> inputs, outputs;             // on the host
  std::vector<void*> input_memory, output_memory;  // on the device; empty on a CPU instance
  std::vector<tcc_tensor> input_views, output_views;
};

void Instance::check(int status) const {
  if (status != TCC_OK) throw Error(exit_code_of(status), kind_of(status), library_->path(), library_->api().last_error());
}

Instance::Instance(std::shared_ptr<const Library> library, const InstanceOptions& options) : library_(std::move(library)) {
  tcc_create_options create = {};
  create.struct_size = sizeof create;
  create.device = static_cast<int32_t>(options.device);
  create.device_ordinal = options.device_ordinal;
  create.num_threads = options.num_threads;
  create.no_cuda_graph = options.cuda_graph ? 0 : 1;
  create.weights_path = options.weights_path.empty() ? nullptr : options.weights_path.c_str();
  if (options.log) {
    create.log = [](void* user, int32_t, const char* message) {
      (*static_cast<const std::function<void(const std::string&)>*>(user))(message);
    };
    create.log_user = const_cast<std::function<void(const std::string&)>*>(&options.log);
  }
  check(library_->api().create(&create, &instance_));
  info_.struct_size = sizeof info_;
  check(library_->api().instance_info(instance_, &info_));
}

Instance::~Instance() {
  const tcc_api& api = library_->api();
  if (prepared_) {
    for (void* memory : prepared_->input_memory) api.deallocate(instance_, memory);
    for (void* memory : prepared_->output_memory) api.deallocate(instance_, memory);
  }
  api.destroy(instance_);
}

std::vector<Tensor> Instance::run(const std::vector<Tensor>& inputs) {
  std::vector<Tensor> outputs;
  for (const TensorInfo& info : library_->outputs()) outputs.emplace_back(info.dtype, info.shape);
  const std::vector<tcc_tensor> in = describe(inputs, nullptr, 0), out = describe(outputs, nullptr, 0);
  check(library_->api().run(instance_, in.data(), static_cast<uint32_t>(in.size()), out.data(), static_cast<uint32_t>(out.size()), nullptr,
                            0, nullptr));
  return outputs;
}

void Instance::prepare(const std::vector<Tensor>& inputs) {
  const tcc_api& api = library_->api();
  if (!prepared_) {
    prepared_ = std::make_unique<Prepared>();
    for (const TensorInfo& info : library_->outputs()) prepared_->outputs.emplace_back(info.dtype, info.shape);
  }
  Prepared& p = *prepared_;
  p.inputs = inputs;
  if (on_cuda()) {
    if (p.input_memory.empty() && p.output_memory.empty()) {
      for (const bool input : {true, false}) {
        for (const TensorInfo& info : input ? library_->inputs() : library_->outputs()) {
          void* memory = nullptr;
          check(api.allocate(instance_, static_cast<uint64_t>(info.size_bytes), &memory));
          (input ? p.input_memory : p.output_memory).push_back(memory);
        }
      }
    }
    for (size_t i = 0; i < inputs.size() && i < p.input_memory.size(); i++) {
      // A tensor of another size than the model's is refused by the run; nothing of it may be written past the end here.
      if (inputs[i].size_bytes() != library_->inputs()[i].size_bytes) continue;
      check(api.copy(instance_, p.input_memory[i], TCC_DEVICE_CUDA, inputs[i].bytes(), TCC_DEVICE_CPU,
                     static_cast<uint64_t>(inputs[i].size_bytes())));
    }
    p.input_memory.resize(library_->inputs().size());
  }
  std::vector<void*> input_memory = p.input_memory;
  input_memory.resize(inputs.size());
  p.input_views = describe(p.inputs, on_cuda() ? &input_memory : nullptr, info_.device_ordinal);
  p.output_views = describe(p.outputs, on_cuda() ? &p.output_memory : nullptr, info_.device_ordinal);
}

Timing Instance::run_prepared() {
  tcc::check(prepared_ != nullptr, "run_prepared() before prepare()");
  const Prepared& p = *prepared_;
  tcc_timing timing = {};
  timing.struct_size = sizeof timing;
  check(library_->api().run_timed(instance_, p.input_views.data(), static_cast<uint32_t>(p.input_views.size()), p.output_views.data(),
                                  static_cast<uint32_t>(p.output_views.size()), nullptr, 0, nullptr, &timing));
  return {timing.host_us, timing.device_us};
}

std::vector<Tensor> Instance::prepared_outputs() {
  tcc::check(prepared_ != nullptr, "prepared_outputs() before prepare()");
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < prepared_->outputs.size(); i++) {
    Tensor tensor(prepared_->outputs[i].dtype(), prepared_->outputs[i].shape());
    const void* from = on_cuda() ? prepared_->output_memory[i] : prepared_->outputs[i].bytes();
    if (tensor.size_bytes() > 0) {
      check(library_->api().copy(instance_, tensor.mutable_bytes(), TCC_DEVICE_CPU, from, on_cuda() ? TCC_DEVICE_CUDA : TCC_DEVICE_CPU,
                                 static_cast<uint64_t>(tensor.size_bytes())));
    }
    outputs.push_back(std::move(tensor));
  }
  return outputs;
}

Timing Instance::run_prepared_many(int runs) {
  tcc::check(prepared_ != nullptr, "run_prepared_many() before prepare()");
  const Prepared& p = *prepared_;
  const tcc_api& api = library_->api();
  const auto now_us = [] {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) * 1e-3;
  };
  check(api.synchronize(instance_, nullptr));
  const double start = now_us();
  for (int i = 0; i < runs; i++) {
    check(api.run(instance_, p.input_views.data(), static_cast<uint32_t>(p.input_views.size()), p.output_views.data(),
                  static_cast<uint32_t>(p.output_views.size()), nullptr, 0, nullptr));
  }
  const double enqueued = now_us();
  check(api.synchronize(instance_, nullptr));
  return {enqueued - start, now_us() - start};
}

std::vector<LaunchTime> Instance::profile_prepared() {
  tcc::check(prepared_ != nullptr, "profile_prepared() before prepare()");
  const Prepared& p = *prepared_;
  const tcc_api& api = library_->api();
  std::vector<double> times(info_.num_launches);
  check(api.profile(instance_, p.input_views.data(), static_cast<uint32_t>(p.input_views.size()), p.output_views.data(),
                    static_cast<uint32_t>(p.output_views.size()), nullptr, 0, nullptr, times.data(), info_.num_launches));
  std::vector<LaunchTime> result;
  for (uint32_t l = 0; l < info_.num_launches; l++) {
    tcc_launch_info info = {};
    info.struct_size = sizeof info;
    check(api.describe_launch(instance_, l, &info));
    result.push_back({info.label, info.kernel, info.grid, times[l]});
  }
  return result;
}

}  // namespace tcc::runtime
