#include "tcc/runtime/library.h"

#include <dlfcn.h>
#include <cstring>

#include "runtime/library_file.h"
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
    case TCC_INVALID_ARGUMENT:
    case TCC_INDEX_OUT_OF_RANGE: return ExitCode::usage;
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
    case TCC_INDEX_OUT_OF_RANGE: return "index-out-of-range";
    default: return "unusable-library";
  }
}

// The loader's words without the path that they begin with, which ours has already.
std::string loader_error(const std::string& name) {
  const std::string text = dlerror();
  const std::string prefix = name + ": ";
  return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
}

static_assert(static_cast<int>(StateRole::gradient) == TCC_STATE_GRADIENT && static_cast<int>(StateRole::buffer) == TCC_STATE_BUFFER);

template <class T> T empty() {
  T info = {};
  info.struct_size = sizeof info;
  return info;
}

TensorInfo convert(const tcc_tensor_info& info) {
  TensorInfo tensor{info.name, static_cast<DType>(info.dtype), Shape(info.shape, info.shape + info.rank),
                    static_cast<int64_t>(info.size_bytes), std::nullopt};
  if (info.has_range) tensor.range = IntRange{info.low, info.high};
  return tensor;
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

std::shared_ptr<const Library> Library::open(const std::string& path, Check how) {
  const auto fail = [&](const std::string& message, const std::string& help = "") {
    throw Error(ExitCode::environment, "unusable-library", path, message, help);
  };
  check_library_file(path, how == Check::whole);
  // Without a slash dlopen would search the system's folders.
  const std::string name = path.find('/') == std::string::npos ? "./" + path : path;
  // Not `new` by a static function of make_shared: the constructor is private.
  std::shared_ptr<Library> library(new Library);
  library->path_ = path;
  library->handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library->handle_) fail("cannot be loaded: " + loader_error(name), "compile the model again");
  const auto query = reinterpret_cast<tcc_query_function>(dlsym(library->handle_, "tcc_model_query"));
  if (!query) fail("is a library, but none made by tcc: it does not export `tcc_model_query`");
  library->api_ = query(TCC_ABI_VERSION);
  if (!library->api_) fail("speaks another version of the interface than this tcc", "compile the model again");

  library->info_.struct_size = sizeof(tcc_model_info);
  if (library->api_->model_info(&library->info_)) fail(library->api_->last_error());
  library->model_name_ = library->info_.name;
  const tcc_api& api = *library->api_;
  const auto check = [&](int status) {
    if (status) fail(api.last_error());
  };
  for (uint32_t f = 0; f < library->info_.num_functions; f++) {
    FunctionInfo& function = library->functions_.emplace_back();
    tcc_function_info info = empty<tcc_function_info>();
    check(api.function_info(nullptr, f, &info));
    function.name = info.name;
    for (uint32_t i = 0; i < info.num_inputs; i++) {
      tcc_tensor_info tensor = empty<tcc_tensor_info>();
      check(api.describe_function_input(f, i, &tensor));
      function.inputs.push_back(convert(tensor));
    }
    for (uint32_t i = 0; i < info.num_outputs; i++) {
      tcc_tensor_info tensor = empty<tcc_tensor_info>();
      check(api.describe_function_output(f, i, &tensor));
      function.outputs.push_back(convert(tensor));
    }
  }
  for (uint32_t i = 0; i < library->info_.num_sections; i++) {
    tcc_section_info info = empty<tcc_section_info>();
    check(api.section_info(nullptr, i, &info));
    library->sections_.push_back(
        {info.name, static_cast<DType>(info.dtype), static_cast<StateRole>(info.role), static_cast<int64_t>(info.size_bytes)});
  }
  for (uint32_t i = 0; i < library->info_.num_state_tensors; i++) {
    tcc_state_info info = empty<tcc_state_info>();
    check(api.describe_state(i, &info));
    library->state_.push_back({info.name, static_cast<DType>(info.dtype), Shape(info.shape, info.shape + info.rank),
                               static_cast<StateRole>(info.role), static_cast<int>(info.section), static_cast<int64_t>(info.offset),
                               static_cast<int64_t>(info.size_bytes), info.trained != 0});
  }
  for (uint32_t i = 0; i < library->info_.num_scalars; i++) {
    tcc_scalar_info info = empty<tcc_scalar_info>();
    check(api.describe_scalar(nullptr, i, &info));
    library->scalars_.push_back({info.name, static_cast<DType>(info.dtype), info.value});
  }
  return library;
}

int Library::find_function(std::string_view name) const {
  for (size_t f = 0; f < functions_.size(); f++) {
    if (functions_[f].name == name) return static_cast<int>(f);
  }
  return -1;
}

int Library::function(std::string_view name) const {
  const int found = find_function(name);
  if (found >= 0) return found;
  std::string known;
  for (const FunctionInfo& function : functions_) known += (known.empty() ? "`" : ", `") + function.name + "`";
  throw Error(ExitCode::usage, "invalid-argument", path_, "there is no function `" + std::string(name) + "`, the library has " + known);
}

const StateInfo* Library::find_state(std::string_view name) const {
  for (const StateInfo& tensor : state_) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

Library::~Library() {
  if (handle_) dlclose(handle_);
}

// Tensors that stay where the device reads and writes them.
struct Instance::Prepared {
  int function = 0;                                // or kStep
  std::vector<Tensor> inputs, outputs;             // on the host
  std::vector<void*> input_memory, output_memory;  // on the device; empty on a CPU instance
  std::vector<tcc_tensor> input_views, output_views;
};

void Instance::check(int status) const {
  if (status != TCC_OK) throw Error(exit_code_of(status), kind_of(status), library_->path(), library_->api().last_error());
}

bool is_index_error(const Error& error) {
  return !error.diagnostics().empty() && error.diagnostics().front().kind == kind_of(TCC_INDEX_OUT_OF_RANGE);
}

Instance::Instance(std::shared_ptr<const Library> library, const InstanceOptions& options)
    : library_(std::move(library)), log_(options.log) {
  tcc_create_options create = {};
  create.struct_size = sizeof create;
  create.device = static_cast<int32_t>(options.device);
  create.device_ordinal = options.device_ordinal;
  create.num_threads = options.num_threads;
  create.no_cuda_graph = options.cuda_graph ? 0 : 1;
  create.check_weights = options.check_weights ? 1 : 0;
  create.no_index_check = options.index_check ? 0 : 1;
  create.weights_path = options.weights_path.empty() ? nullptr : options.weights_path.c_str();
  if (log_) {
    create.log = [](void* user, int32_t, const char* message) {
      (*static_cast<const std::function<void(const std::string&)>*>(user))(message);
    };
    create.log_user = &log_;
  }
  check(library_->api().create(&create, &instance_));
  info_.struct_size = sizeof info_;
  check(library_->api().instance_info(instance_, &info_));
}

Instance::~Instance() {
  free_prepared();
  library_->api().destroy(instance_);
}

void Instance::free_prepared() {
  if (!prepared_) return;
  for (void* memory : prepared_->input_memory) library_->api().deallocate(instance_, memory);
  for (void* memory : prepared_->output_memory) library_->api().deallocate(instance_, memory);
  prepared_.reset();
}

tcc_function_info Instance::function_info(int function) const {
  tcc_function_info info = empty<tcc_function_info>();
  check(library_->api().function_info(instance_, static_cast<uint32_t>(function), &info));
  return info;
}

std::vector<Tensor> Instance::run(int function, const std::vector<Tensor>& inputs) {
  tcc::check(function >= 0 && static_cast<size_t>(function) < library_->functions().size(), "run() of a function that is not there");
  std::vector<Tensor> outputs;
  for (const TensorInfo& info : library_->functions()[static_cast<size_t>(function)].outputs) outputs.emplace_back(info.dtype, info.shape);
  const std::vector<tcc_tensor> in = describe(inputs, nullptr, 0), out = describe(outputs, nullptr, 0);
  check(library_->api().call(instance_, static_cast<uint32_t>(function), in.data(), static_cast<uint32_t>(in.size()), out.data(),
                             static_cast<uint32_t>(out.size()), nullptr, 0, nullptr, nullptr));
  return outputs;
}

std::vector<Tensor> Instance::run(std::string_view function, const std::vector<Tensor>& inputs) {
  return run(library_->function(function), inputs);
}

std::vector<Tensor> Instance::step(const std::vector<Tensor>& inputs) {
  std::vector<Tensor> outputs;
  const size_t function = static_cast<size_t>(library_->function("step"));
  for (const TensorInfo& info : library_->functions()[function].outputs) outputs.emplace_back(info.dtype, info.shape);
  const std::vector<tcc_tensor> in = describe(inputs, nullptr, 0), out = describe(outputs, nullptr, 0);
  check(library_->api().step(instance_, in.data(), static_cast<uint32_t>(in.size()), out.data(), static_cast<uint32_t>(out.size()), nullptr,
                             0, nullptr, nullptr));
  return outputs;
}

void Instance::set_scalar(std::string_view name, double value) {
  check(library_->api().set_scalar(instance_, std::string(name).c_str(), value));
}

double Instance::get_scalar(std::string_view name) const {
  double value = 0;
  check(library_->api().get_scalar(instance_, std::string(name).c_str(), &value));
  return value;
}

Tensor Instance::read_state(std::string_view name) const {
  const StateInfo* info = library_->find_state(name);
  Tensor tensor = info ? Tensor(info->dtype, info->shape) : Tensor(DType::u8, {0});
  check(
      library_->api().read_state(instance_, std::string(name).c_str(), tensor.mutable_bytes(), static_cast<uint64_t>(tensor.size_bytes())));
  return tensor;
}

void Instance::write_state(std::string_view name, const Tensor& tensor) {
  const StateInfo* info = library_->find_state(name);
  if (info && (info->dtype != tensor.dtype() || info->shape != tensor.shape())) {
    throw Error(ExitCode::usage, "invalid-argument", library_->path(),
                "state tensor `" + info->name + "` is " + std::string(name_of(tensor.dtype())) + to_string(tensor.shape()) + ", expected " +
                    std::string(name_of(info->dtype)) + to_string(info->shape));
  }
  check(library_->api().write_state(instance_, std::string(name).c_str(), tensor.bytes(), static_cast<uint64_t>(tensor.size_bytes())));
}

void* Instance::section_data(int section) {
  tcc_section_info info = empty<tcc_section_info>();
  check(library_->api().section_info(instance_, static_cast<uint32_t>(section), &info));
  return info.data;
}

void Instance::save_state(const std::string& path) { check(library_->api().save_state(instance_, path.c_str())); }
void Instance::load_state(const std::string& path, bool parameters_only) {
  check(library_->api().load_state(instance_, path.c_str(), parameters_only ? TCC_LOAD_PARAMETERS : 0));
}
void Instance::reset_state() { check(library_->api().reset_state(instance_)); }

void Instance::prepare(const std::vector<Tensor>& inputs, int function) {
  const tcc_api& api = library_->api();
  const FunctionInfo& info = library_->functions()[static_cast<size_t>(function == kStep ? library_->function("step") : function)];
  if (prepared_ && prepared_->function != function) free_prepared();
  if (!prepared_) {
    prepared_ = std::make_unique<Prepared>();
    prepared_->function = function;
    for (const TensorInfo& output : info.outputs) prepared_->outputs.emplace_back(output.dtype, output.shape);
  }
  Prepared& p = *prepared_;
  p.inputs = inputs;
  if (on_cuda()) {
    if (p.input_memory.empty() && p.output_memory.empty()) {
      for (const bool input : {true, false}) {
        for (const TensorInfo& tensor : input ? info.inputs : info.outputs) {
          void* memory = nullptr;
          check(api.allocate(instance_, static_cast<uint64_t>(tensor.size_bytes), &memory));
          (input ? p.input_memory : p.output_memory).push_back(memory);
        }
      }
    }
    for (size_t i = 0; i < inputs.size() && i < p.input_memory.size(); i++) {
      // A tensor of another size than the model's is refused by the run; nothing of it may be written past the end here.
      if (inputs[i].size_bytes() != info.inputs[i].size_bytes) continue;
      check(api.copy(instance_, p.input_memory[i], TCC_DEVICE_CUDA, inputs[i].bytes(), TCC_DEVICE_CPU,
                     static_cast<uint64_t>(inputs[i].size_bytes())));
    }
  }
  std::vector<void*> input_memory = p.input_memory;
  input_memory.resize(inputs.size());
  p.input_views = describe(p.inputs, on_cuda() ? &input_memory : nullptr, info_.device_ordinal);
  p.output_views = describe(p.outputs, on_cuda() ? &p.output_memory : nullptr, info_.device_ordinal);
}

int Instance::prepared_call(tcc_timing* timing) {
  tcc::check(prepared_ != nullptr, "a prepared run before prepare()");
  const Prepared& p = *prepared_;
  const uint32_t num_inputs = static_cast<uint32_t>(p.input_views.size()), num_outputs = static_cast<uint32_t>(p.output_views.size());
  if (p.function == kStep) {
    return library_->api().step(instance_, p.input_views.data(), num_inputs, p.output_views.data(), num_outputs, nullptr, 0, nullptr,
                                timing);
  }
  return library_->api().call(instance_, static_cast<uint32_t>(p.function), p.input_views.data(), num_inputs, p.output_views.data(),
                              num_outputs, nullptr, 0, nullptr, timing);
}

Timing Instance::run_prepared() {
  tcc_timing timing = empty<tcc_timing>();
  check(prepared_call(&timing));
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
  const tcc_api& api = library_->api();
  const auto now_us = [] {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) * 1e-3;
  };
  check(api.synchronize(instance_, nullptr));
  const double start = now_us();
  for (int i = 0; i < runs; i++) check(prepared_call(nullptr));
  const double enqueued = now_us();
  check(api.synchronize(instance_, nullptr));
  return {enqueued - start, now_us() - start};
}

std::vector<LaunchTime> Instance::profile_prepared() {
  tcc::check(prepared_ != nullptr, "profile_prepared() before prepare()");
  const Prepared& p = *prepared_;
  const tcc_api& api = library_->api();
  const int function = p.function == kStep ? library_->function("step") : p.function;
  const uint32_t number = static_cast<uint32_t>(function), num_launches = function_info(function).num_launches;
  std::vector<double> times(num_launches);
  check(api.profile_function(instance_, number, p.input_views.data(), static_cast<uint32_t>(p.input_views.size()), p.output_views.data(),
                             static_cast<uint32_t>(p.output_views.size()), nullptr, 0, nullptr, times.data(), num_launches));
  std::vector<LaunchTime> result;
  for (uint32_t l = 0; l < num_launches; l++) {
    tcc_launch_info info = empty<tcc_launch_info>();
    check(api.describe_function_launch(instance_, number, l, &info));
    result.push_back({info.label, info.kernel, info.grid, times[l]});
  }
  return result;
}

}  // namespace tcc::runtime
