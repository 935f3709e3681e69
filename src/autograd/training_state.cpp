// Lays out the state. Sections of parameters of one dtype, of their gradients and of their slots have the same parameters at the same elements, so that
// element i of each flat tensor belongs to element i of the others:
//
//   parameters.f16   | w 100 | 28 zeros | b 3 | 125 zeros |     256-byte aligned
//   optimizer.master.f32   the same elements, so 512-byte aligned
//
// Parameters that are updated apart come first; the others are one flat tensor then. Zeros stay zeros in all formulas: their gradients are zeros.

#include "autograd/training_state.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <unordered_set>

#include "autograd/statistics.h"
#include "autograd/update_rules.h"

#include "tcc/support/integer_math.h"
#include "tcc/support/parallel.h"

namespace tcc::autograd {
namespace {

constexpr const char* kStep = "optimizer.step";

std::string slot_name(const std::string& slot, const std::string& of) { return "optimizer." + slot + "." + of; }

/// Tables of fewer elements are not worth a kernel of their own.
constexpr int64_t kLargeTable = int64_t(1) << 16;

/// Whether it is better to update a parameter with this gradient by itself. Seen through views and casts it is made by
/// - a matmul: the update becomes its epilogue. Not a convolution: its weights are laid out other than its sums, and what is updated there must wait for
///   the convolution back to the input;
/// - the scatter of a large embedding: the last of the backward pass, for which the flat gradient would keep room from its begin on.
bool is_updated_apart(const Value* gradient) {
  const int64_t count = gradient->type.count();
  const auto is_passed = [](Op op) { return op == Op::reshape_ || op == Op::cast_ || op == Op::transpose_; };
  while (gradient->producer != nullptr && is_passed(gradient->producer->op)) gradient = gradient->producer->operand(0);
  if (gradient->producer == nullptr) return false;
  const Op op = gradient->producer->op;
  return op == Op::dot_general_ || op == Op::matmul_ || (op == Op::scatter_nd_ && count >= kLargeTable);
}

/// Zeros that take no memory until they are written: pages that were never touched.
Tensor zeros(DType dtype, const Shape& shape) {
  constexpr size_t kAlignment = 64;
  const size_t bytes = static_cast<size_t>(storage_bytes(dtype, num_elements(shape)));
  std::shared_ptr<void> owner(std::calloc(bytes + kAlignment, 1), std::free);
  check(owner != nullptr, "no memory for the state");
  const size_t misalignment = reinterpret_cast<size_t>(owner.get()) % kAlignment;
  return Tensor(dtype, shape, static_cast<const std::byte*>(owner.get()) + (kAlignment - misalignment) % kAlignment, owner);
}

Tensor filled(DType dtype, const Shape& shape, double value) {
  if (value == 0) return zeros(dtype, shape);
  Tensor tensor(dtype, shape);
  for (int64_t i = 0; i < tensor.count(); ++i) tensor.set_double(i, value);
  return tensor;
}

StateTensor tensor_of(std::string name, const Shape& shape, double fill = 0, Tensor initial = {}) {
  StateTensor tensor;
  tensor.name = std::move(name);
  tensor.shape = shape;
  tensor.fill = fill;
  tensor.initial = std::move(initial);
  return tensor;
}

/// Names that the state adds are not those of the model, and what trains changes by training alone.
void check_names(const Graph& joint, const Graph& forward) {
  auto refuse = [&](const std::string& what, const std::string& name) {
    throw Error(ExitCode::usage, "invalid-argument", joint.file,
                "--mode=train: the model has " + what + " `" + name + "`, a name of the training's own",
                "give it another name in the model");
  };
  for (const Value* input : joint.body.args) {
    if (input->name == "lr" || input->name == "saved") refuse("an input", input->name);
  }
  for (const auto& weight : forward.weights()) {
    const std::string& name = weight->name;
    const bool is_kept = weight->from_model || weight->is_buffer || weight->is_state;
    for (const char* prefix : {"grad.", "optimizer."}) {
      if (is_kept && name.rfind(prefix, 0) == 0) refuse("a tensor", name);
    }
    for (const char* prefix : {"parameters.", "gradients."}) {
      if (is_kept && name == prefix + std::string(name_of(weight->tensor.dtype()))) refuse("a tensor", name);
    }
  }
}

}  // namespace

int64_t padded_count(DType dtype, int64_t count) {
  const int64_t unit = kStateAlignment / size_bytes(dtype);
  return align_up(count, unit);
}

std::vector<Trained> trained_parameters(const Graph& joint) {
  std::vector<Trained> trained;
  for (size_t i = 0; i < joint.body.results.size(); ++i) {
    const std::string& name = joint.output_names[i];
    if (name.rfind("grad.", 0) != 0) continue;
    if (Value* weight = joint.find_weight(name.substr(5))) trained.push_back({weight, joint.body.results[i]});
  }
  return trained;
}

namespace {

[[noreturn]] void refuse_without_parameters(const Graph& forward) {
  const auto& weights = forward.weights();
  const bool has_any = std::any_of(weights.begin(), weights.end(),
                                   [](const auto& weight) { return weight->from_model && is_float(weight->tensor.dtype()); });
  throw Error(ExitCode::usage, "invalid-argument", "", "--mode=train: no parameter trains",
              has_any ? "" : "parameters are the initializers of the model; tensors of Constant nodes are constants");
}

}  // namespace

TrainingState::TrainingState(const Graph& joint, const Graph& forward, const OptimizerOptions& options) {
  check_names(joint, forward);
  std::vector<Trained> trained = trained_parameters(joint);
  if (trained.empty()) refuse_without_parameters(forward);
  for (const Trained& t : trained) {
    if (!t.weight->weight->is_state) continue;
    throw Error(ExitCode::usage, "invalid-argument", joint.file,
                "--mode=train: the model itself changes the parameter `" + t.weight->name + "`",
                "it can't train as well: --freeze=" + t.weight->name);
  }
  add_parameters(std::move(trained), options);
  add_counters(joint, options);
  add_others(joint, forward);
}

namespace {

using Parameters = std::unordered_set<const Value*>;

/// The parameters of each dtype, in the order of the dtypes' first ones.
std::vector<FlatParameters> flats_of(const std::vector<Trained>& trained) {
  std::vector<FlatParameters> flats;
  for (const Trained& t : trained) {
    const DType dtype = t.weight->type.dtype;
    auto flat = std::find_if(flats.begin(), flats.end(), [&](const FlatParameters& other) { return other.dtype == dtype; });
    if (flat == flats.end()) {
      flat = flats.emplace(flats.end());
      flat->dtype = dtype;
      flat->wide = compute_dtype(dtype);
    }
    flat->parts.push_back(t);
  }
  return flats;
}

/// What a section holds for each of its parameters.
struct SectionKind {
  std::string name;
  StateRole role;
  DType dtype;
  std::string prefix;  ///< of the names of its tensors
  double fill = 0;
  bool has_parameters = false;  ///< begins as the parameters are
};

/// A section of a tensor for each of the flat parameters; returns its number. Those that begin as parameters of another dtype have no contents yet.
int append_section(StateLayout& layout, const FlatParameters& of, const SectionKind& kind) {
  std::vector<StateTensor> tensors;
  for (const Trained& t : of.parts) {
    const Tensor initial = kind.has_parameters && kind.dtype == of.dtype ? t.weight->weight->tensor : Tensor();
    tensors.push_back(tensor_of(kind.prefix + t.weight->name, t.weight->type.shape(), kind.fill, initial));
  }
  std::string name = kind.name + "." + std::string(name_of(kind.dtype));
  // Slots of f16 and of f32 parameters are all f32.
  if (std::any_of(layout.sections.begin(), layout.sections.end(), [&](const StateSection& s) { return s.name == name; }))
    name += ".of_" + std::string(name_of(of.dtype));
  return layout.append_section(name, kind.role, kind.dtype, std::move(tensors),
                               kStateAlignment / size_bytes(of.dtype) * size_bytes(kind.dtype));
}

/// The flat tensors over a section of flat parameters: the whole, and what is behind the tensors that are updated apart. Returns the name of the whole.
std::string append_views(StateLayout& layout, const FlatParameters& of, const Parameters& apart, int number) {
  const StateSection section = layout.sections[static_cast<size_t>(number)];
  int64_t apart_bytes = 0;
  for (const Trained& t : of.parts) {
    if (apart.contains(t.weight)) apart_bytes += storage_bytes(section.dtype, padded_count(of.dtype, t.weight->type.count()));
  }
  layout.append_view(section.name, number);
  if (apart_bytes > 0 && apart_bytes < section.size_bytes) layout.append_view(section.name + ".rest", number, apart_bytes);
  return section.name;
}

/// One of the flat parameters by itself.
FlatParameters alone(const FlatParameters& flat, const Trained& trained, const OptimizerOptions& options) {
  FlatParameters one = flat;
  const std::string& name = trained.weight->name;
  one.flat = false;
  one.parts = {trained};
  one.parameters = name;
  one.gradients = "grad." + name;
  if (!one.master.empty()) one.master = slot_name("master", name);
  for (size_t i = 0; i < one.slots.size(); ++i) one.slots[i] = slot_name(slots_of(options)[i].name, name);
  return one;
}

/// The flat parameters without those that are updated apart; without parts where none are left.
FlatParameters rest_of(const FlatParameters& flat, const Parameters& apart) {
  FlatParameters rest = flat;
  std::erase_if(rest.parts, [&](const Trained& t) { return apart.contains(t.weight); });
  if (rest.parts.size() == flat.parts.size()) return rest;
  rest.parameters += ".rest";
  rest.gradients += ".rest";
  if (!rest.master.empty()) rest.master += ".rest";
  for (std::string& slot : rest.slots) slot += ".rest";
  return rest;
}

}  // namespace

void TrainingState::add_parameters(std::vector<Trained> trained, const OptimizerOptions& options) {
  const bool fuses = options.fuse_updates && options.clip_norm <= 0 && options.accumulate <= 1 && !options.loss_scale.enabled();
  const auto apart_end =
      std::stable_partition(trained.begin(), trained.end(), [&](const Trained& t) { return fuses && is_updated_apart(t.gradient); });
  Parameters apart;
  for (auto t = trained.begin(); t != apart_end; ++t) apart.insert(t->weight);

  const auto add_section = [&](const FlatParameters& of, const SectionKind& kind) {
    const int section = append_section(layout, of, kind);
    if (kind.has_parameters && kind.dtype != of.dtype) convert_into_section(section, of.parts);
    return append_views(layout, of, apart, section);
  };
  by_dtype = flats_of(trained);
  for (FlatParameters& flat : by_dtype) flat.parameters = add_section(flat, {"parameters", StateRole::parameter, flat.dtype, "", 0, true});
  for (FlatParameters& flat : by_dtype) {
    if (flat.wide == flat.dtype) continue;
    const SectionKind master{"optimizer.master", StateRole::optimizer, flat.wide, "optimizer.master.", 0, true};
    flat.master = add_section(flat, master);
  }
  for (const Slot& slot : slots_of(options)) {
    for (FlatParameters& flat : by_dtype) {
      const std::string name = std::string("optimizer.") + slot.name;
      flat.slots.push_back(add_section(flat, {name, StateRole::optimizer, flat.wide, name + ".", slot.fill}));
    }
  }
  for (FlatParameters& flat : by_dtype) flat.gradients = add_section(flat, {"gradients", StateRole::gradient, flat.dtype, "grad."});

  for (const FlatParameters& flat : by_dtype) {
    for (const Trained& t : flat.parts) {
      if (apart.contains(t.weight)) updated.push_back(alone(flat, t, options));
    }
    FlatParameters rest = rest_of(flat, apart);
    if (!rest.parts.empty()) updated.push_back(std::move(rest));
  }
}

// The first contents of the tensors of a section, which begin as parameters of another dtype. Parameters may be most of what a compilation holds, so they are
// converted where they lie, piece by piece.
void TrainingState::convert_into_section(int number, const std::vector<Trained>& parts) {
  constexpr int64_t kPiece = 1 << 12;  // elements, which the first-level cache holds
  constexpr int64_t kPieces = 1 << 4;  // of one task at least
  const StateSection& section = layout.sections[static_cast<size_t>(number)];
  Tensor bytes(DType::u8, {section.size_bytes});
  std::byte* const begin_of_section = bytes.mutable_bytes();
  const auto shared = std::make_shared<const Tensor>(bytes);
  size_t next = 0;
  for (StateTensor& tensor : layout.tensors) {
    if (tensor.section != number) continue;
    const Value* parameter = parts.at(next++).weight;
    check(tensor.name.ends_with(parameter->name), "the tensors of a section are not in the order of its parameters");
    const Tensor& from = parameter->weight->tensor;
    std::byte* const to = begin_of_section + (tensor.offset - section.offset);
    check(size_bits(from.dtype()) >= 8 && size_bits(tensor.dtype) >= 8, "a parameter whose elements are parts of bytes");
    const int64_t from_bytes = size_bytes(from.dtype()), to_bytes = size_bytes(tensor.dtype), count = from.count();
    parallel_for(ceil_div(count, kPiece), kPieces, [&](int64_t begin, int64_t end) {
      for (int64_t first = begin * kPiece; first < std::min(count, end * kPiece); first += kPiece) {
        const int64_t size = std::min(kPiece, count - first);
        const Tensor piece = Tensor(from.dtype(), {size}, from.bytes() + first * from_bytes, nullptr).cast_to(tensor.dtype);
        std::memcpy(to + first * to_bytes, piece.bytes(), static_cast<size_t>(size * to_bytes));
      }
    });
    tensor.initial = Tensor(tensor.dtype, tensor.shape, to, shared);
    if (size_bits(from.dtype()) == 16 && tensor.dtype == DType::f32) tensor.converted_from = parameter->name;
  }
  contents_.emplace(number, std::move(bytes));
}

void TrainingState::add_counters(const Graph& joint, const OptimizerOptions& options) {
  std::vector<StateTensor> scalars;
  if (counts_steps(options)) scalars.push_back(tensor_of(kStep, {}));
  if (options.loss_scale.dynamic) {
    scalars.push_back(tensor_of("optimizer.loss_scale", {}, options.loss_scale.scale));
    scalars.push_back(tensor_of("optimizer.growth_tracker", {}));
  }
  const auto& inputs = joint.body.args;
  if (std::any_of(inputs.begin(), inputs.end(), [](const Value* input) { return input->name == "seed"; }))
    scalars.push_back(tensor_of("optimizer.draw", {}));
  if (!scalars.empty()) layout.append_section("optimizer.f32", StateRole::optimizer, DType::f32, std::move(scalars));
}

/// Statistics, the parameters that do not train, and what the model itself changes.
void TrainingState::add_others(const Graph& joint, const Graph& forward) {
  auto statistics = running_statistics(forward);
  for (const StateUpdate& update : joint.state_updates) {
    const Value* value = forward.find_weight(update.weight->name);
    if (value != nullptr && !value->weight->is_state) statistics.insert(value);
  }
  std::map<DType, std::vector<StateTensor>> remembered, frozen, buffers;
  for (const auto& weight : forward.weights()) {
    const Tensor& tensor = weight->tensor;
    if (layout.find(weight->name) != nullptr) continue;
    const bool is_statistic = statistics.count(forward.find_weight(weight->name)) != 0 && (weight->from_model || weight->is_buffer);
    const bool is_frozen = weight->from_model && is_float(tensor.dtype()) && tensor.rank() > 0;
    if (!is_statistic && !is_frozen && !weight->is_state) continue;
    StateTensor state = tensor_of(weight->name, tensor.shape(), 0, tensor);
    state.trained = false;
    (is_statistic ? remembered : weight->from_model ? frozen : buffers)[tensor.dtype()].push_back(std::move(state));
  }
  const auto append = [&](const char* name, StateRole role, std::map<DType, std::vector<StateTensor>>& sections) {
    for (auto& [dtype, tensors] : sections) layout.append_section(name + std::string(name_of(dtype)), role, dtype, std::move(tensors));
  };
  append("frozen.", StateRole::parameter, frozen);
  append("statistics.", StateRole::statistic, remembered);
  append("buffers.", StateRole::buffer, buffers);
}

Tensor TrainingState::first_contents(const StateTensor& tensor) {
  if (tensor.initial.defined()) return tensor.initial;
  if (!tensor.view) return filled(tensor.dtype, tensor.shape, tensor.fill);
  const auto contents = std::make_shared<const Tensor>(contents_of_section(tensor.section));
  return {tensor.dtype, tensor.shape, contents->bytes() + (tensor.offset - layout.sections[static_cast<size_t>(tensor.section)].offset),
          contents};
}

// Parameters may be most of what a compilation holds. So they are there once: what they were made from is let go.
const Tensor& TrainingState::contents_of_section(int number) {
  const auto [entry, is_new] = contents_.try_emplace(number);
  if (!is_new) return entry->second;
  const StateSection& section = layout.sections[static_cast<size_t>(number)];
  std::vector<StateTensor*> parts;
  for (StateTensor& part : layout.tensors) {
    if (part.section == number && !part.view && (part.initial.defined() || part.fill != 0)) parts.push_back(&part);
  }
  if (parts.empty()) return entry->second = zeros(DType::u8, {section.size_bytes});
  Tensor bytes(DType::u8, {section.size_bytes});
  for (const StateTensor* part : parts) {
    const Tensor contents = first_contents(*part);
    std::memcpy(bytes.mutable_bytes() + (part->offset - section.offset), contents.bytes(), static_cast<size_t>(contents.size_bytes()));
  }
  const auto shared = std::make_shared<const Tensor>(bytes);
  for (StateTensor* part : parts) {
    if (part->initial.defined()) part->initial = Tensor(part->dtype, part->shape, bytes.bytes() + (part->offset - section.offset), shared);
  }
  return entry->second = std::move(bytes);
}

Value* TrainingState::read(Graph& graph, const std::string& name) {
  if (Value* weight = graph.find_weight(name)) return weight;
  const StateTensor* tensor = layout.find(name);
  check(tensor != nullptr, "a graph reads a tensor that the state has not");
  return graph.add_weight(name, first_contents(*tensor));
}

}  // namespace tcc::autograd
