#include "driver/emit.h"

#include <algorithm>
#include <array>

#include "tcc/frontend/fx_json.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/safetensors.h"
#include "tcc/support/standard_output.h"
#include "tcc/support/suggest.h"

namespace tcc::driver {

namespace {

constexpr auto kKinds = std::to_array<EmitKind>({
    {"graph", Stage::imported, false, true, true, false, "the model as imported"},
    {"fx", Stage::imported, false, true, true, false, "the same as tcc.fx JSON", "fx.json", "fx.json"},
    {"joint", Stage::joint, false, true, true, true, "the model with its gradients (--mode=grad, train)"},
    {"prims", Stage::prims, false, true, true, false, "primitive operations, after all passes on graphs"},
    {"remat", Stage::planned, true, true, true, true, "what is kept for the backward half and what is computed again (grad, train)"},
    {"forward", Stage::planned, true, true, true, true, "the forward half (grad, train)"},
    {"backward", Stage::planned, true, true, true, true, "the backward half (grad, train)"},
    {"groups", Stage::planned, true, true, true, false, "units of work: what is fused"},
    {"loop", Stage::planned, true, true, true, false, "each distinct unit as loops"},
    {"schedule", Stage::planned, true, true, true, false, "what is done to the loops, a line per kernel"},
    {"candidates", Stage::planned, true, true, true, false, "the best schedules of each unit, with modelled times"},
    {"kernel", Stage::planned, true, true, true, false, "the loops after that"},
    {"plan", Stage::planned, true, true, true, false, "launches and buffers"},
    {"llvm", Stage::planned, true, true, true, false, "LLVM IR, optimised", "ll", "ll"},
    {"ptx", Stage::planned, true, false, true, false, "of cuda"},
    {"asm", Stage::planned, true, true, false, false, "of cpu", "s", "s"},
    {"obj", Stage::planned, true, true, true, false, "of cpu an ELF object, of cuda a cubin (needs ptxas)", "o", "cubin"},
    {"header", Stage::planned, false, true, true, false, "C header of the library", "h", "h"},
    {"manifest", Stage::planned, false, true, true, false, "inputs, outputs, weights, kernels, launches and memory as JSON", "json",
     "json"},
});

// What is left to emit when the input is a later form than a model.
bool exists_from(std::string_view kind, std::string_view from) {
  if (from.empty() || from == "graph") return true;
  if (from == "prims") return kind != "graph" && kind != "fx";
  if (kind == "graph" || kind == "fx" || kind == "joint" || kind == "prims" || kind == "remat" || kind == "forward" || kind == "backward" ||
      kind == "groups" || kind == "plan" || kind == "header" || kind == "manifest")
    return false;
  return from == "loop" || (kind != "loop" && kind != "schedule" && kind != "candidates");
}

const EmitKind& kind_named(const std::string& name, Mode mode) {
  for (const EmitKind& kind : kKinds) {
    if (kind.name != name) continue;
    if (kind.of_gradients && mode == Mode::infer)
      throw Error(ExitCode::usage, "invalid-argument", "", "--emit=" + name + ": an inference has no `" + name + "`",
                  "it goes with --mode=grad and --mode=train");
    return kind;
  }
  std::vector<std::string> names;
  for (const EmitKind& kind : kKinds) names.emplace_back(kind.name);
  throw Error(ExitCode::usage, "invalid-argument", "", "--emit=" + name + ": there is no such product", suggest(name, "products", names));
}

/// Editors and tools tell files by their endings.
std::string ending_of(std::string_view kind, std::string_view target) {
  const auto row = std::find_if(kKinds.begin(), kKinds.end(), [&](const EmitKind& k) { return k.name == kind; });
  const std::string_view ending = target.starts_with("cuda") ? row->cuda_ending : row->ending;
  return std::string(ending.empty() ? kind : ending);
}

bool has(const EmitKind& kind, const TargetChoice& target) { return target.target.is_cpu() ? kind.on_cpu : kind.on_cuda; }

/// Beside code for every chip that for one chip alone is not shown: -march asks for it.
bool has_base(const TargetChoice& target, const std::vector<TargetChoice>& targets) {
  return std::any_of(targets.begin(), targets.end(), [&](const TargetChoice& other) { return other.target.name == target.target.base; });
}

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') == std::string::npos ? 0 : path.rfind('/') + 1); }

/// out.ptx, cuda -> out.cuda.ptx
std::string with_target(const std::string& path, const std::string& target) {
  const size_t name = path.size() - file_name(path).size();
  const size_t dot = path.rfind('.');
  if (dot == std::string::npos || dot <= name) return path + "." + target;
  return path.substr(0, dot) + "." + target + path.substr(dot);
}

// Graphs, printed with the names of their weights.
bool is_graph(std::string_view kind) {
  return kind == "graph" || kind == "joint" || kind == "prims" || kind == "forward" || kind == "backward";
}

}  // namespace

std::span<const EmitKind> emit_kinds() { return kKinds; }

std::string stem_of(const std::string& model) {
  if (model == "-") return "model";
  std::string name = file_name(model);
  const size_t dot = name.rfind('.');
  if (dot != std::string::npos && dot > 0) name.resize(dot);
  return name;
}

ProductWriter::ProductWriter(const Options& options, const std::vector<TargetChoice>& targets) : options_(options) {
  std::vector<EmitRequest> requests = options.emit;
  if (requests.empty() && !options.dump_dir.empty()) {
    for (const EmitKind& kind : kKinds) {
      if (kind.of_gradients && options.mode == Mode::infer) continue;
      // `graph` says the same as `fx`; schedules that are not taken take long to find.
      if (kind.name == "fx" || kind.name == "candidates") continue;
      const bool any = std::any_of(targets.begin(), targets.end(), [&](const TargetChoice& target) { return has(kind, target); });
      if (any && exists_from(kind.name, options.from) && options.passes.empty()) requests.push_back({std::string(kind.name), ""});
    }
  }
  for (const EmitRequest& request : requests) {
    const EmitKind& kind = kind_named(request.kind, options.mode);
    if (!exists_from(kind.name, options.from)) {
      throw Error(ExitCode::usage, "invalid-argument", "",
                  "--emit=" + request.kind + ": --from=" + options.from + " begins after that stage");
    }
    if (wants(request.kind)) throw Error(ExitCode::usage, "invalid-argument", "", "--emit names `" + request.kind + "` twice");
    last_stage_ = std::max(last_stage_, kind.stage);
    if (!kind.per_target) {
      products_.push_back({request.kind, "", request.path});
      continue;
    }
    std::vector<std::string> names;
    for (const TargetChoice& target : targets) {
      if (has(kind, target) && !has_base(target, targets)) names.push_back(target.name);
    }
    if (names.empty())
      throw Error(ExitCode::usage, "invalid-argument", "", "--emit=" + request.kind + ": none of the targets has it",
                  "name another one with --target");
    for (const std::string& name : names) {
      const bool several = names.size() > 1 && !request.path.empty() && request.path != "-";
      products_.push_back({request.kind, name, several ? with_target(request.path, name) : request.path});
    }
  }
  const bool single = requests.size() == 1 && options.dump_dir.empty();
  if (single && products_.size() > 1 && products_.front().kind == "obj" && (requests.front().path.empty() || requests.front().path == "-"))
    throw Error(ExitCode::usage, "invalid-argument", "", "--emit=obj: standard output takes the object of one target, there are two",
                "name one with --target, or write --emit=obj=PATH");
  for (Product& product : products_) {
    if (!product.path.empty()) continue;
    if (single) {
      product.path = "-";
      continue;
    }
    if (!options.dump_dir.empty()) product.path = options.dump_dir + "/";
    product.path +=
        stem_of(options.model) + (product.target.empty() ? "" : "." + product.target) + "." + ending_of(product.kind, product.target);
  }
}

const ProductWriter::Product* ProductWriter::find(std::string_view kind, std::string_view target) const {
  for (const Product& product : products_) {
    if (product.kind == kind && (product.target == target || target.empty())) return &product;
  }
  return nullptr;
}

bool ProductWriter::wants(std::string_view kind) const { return find(kind, "") != nullptr; }
bool ProductWriter::wants(std::string_view kind, const TargetChoice& target) const { return find(kind, target.name) != nullptr; }
Stage ProductWriter::last_stage() const { return last_stage_; }

void ProductWriter::list_files(CommandFiles& files) const {
  for (const Product& product : products_) {
    const std::string role = "--emit=" + product.kind + (product.target.empty() ? "" : " for " + product.target);
    if (product.path != "-") files.writes(product.path, role);
    if (const std::string weights = weights_path(product); !weights.empty()) files.writes(weights, "the weights of " + role);
  }
}

std::vector<std::string> ProductWriter::paths() const {
  std::vector<std::string> paths;
  for (const Product& product : products_) {
    if (product.path != "-") paths.push_back(product.path);
  }
  return paths;
}

void ProductWriter::make_folder() {
  if (!options_.dump_dir.empty()) outputs_.make_folder(options_.dump_dir);
}

std::string ProductWriter::heading(const Product& product) const {
  const auto on_stdout = [&](const Product& other) { return other.kind == product.kind && other.path == "-"; };
  if (std::count_if(products_.begin(), products_.end(), on_stdout) < 2) return "";
  return (product.kind == "llvm" ? "; " : "// ") + product.target + "\n";
}

// Of a text without a file of weights: scales and axes are there, and its large ones alone are lost.
constexpr int64_t kInlineWeights = 16;

std::string ProductWriter::weights_path(const Product& product) const {
  const bool is_fx = product.kind == "fx";
  if (!is_graph(product.kind) && !is_fx) return "";
  return product.path == "-" ? options_.emit_weights : product.path + (is_fx ? ".weights" : ".safetensors");
}

void ProductWriter::put(const Product& product, std::string_view text) {
  if (product.path == "-") write_stdout(heading(product) + std::string(text));
  else outputs_.write(product.path, text);
}

void ProductWriter::write(std::string_view kind, std::string_view target, std::string_view text) {
  if (const Product* product = find(kind, target)) put(*product, text);
}

void ProductWriter::write_fx(const Graph& graph) {
  const Product* product = find("fx", "");
  if (product == nullptr) return;
  const std::string weights = weights_path(*product);
  // Found beside the text: one on standard output names the file as it lies in the folder where the text will be.
  const FxJson json = print_fx_json(graph, weights.empty() ? "" : file_name(weights));
  if (!weights.empty()) outputs_.write(weights, json.weights);
  put(*product, json.text);
}

void ProductWriter::write_graph(std::string_view kind, std::string_view target, const Graph& graph) {
  const Product* product = find(kind, target);
  if (product == nullptr) return;
  const std::string weights = weights_path(*product);
  PrintOptions print_options;
  if (!weights.empty()) {
    std::map<std::string, Tensor> tensors;
    for (const auto& weight : graph.weights()) tensors[weight->name] = weight->tensor;
    write_safetensors(outputs_, weights, tensors);
    // Found beside the text; a text on standard output has no place of its own.
    print_options.weights_file = product->path == "-" ? weights : file_name(weights);
  } else {
    print_options.small_weights = kInlineWeights;
  }
  put(*product, print(graph, print_options));
}

}  // namespace tcc::driver
