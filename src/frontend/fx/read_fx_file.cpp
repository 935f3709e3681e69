// The file as a whole: version, symbols, weights, and which graphs become functions.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "frontend/fx/fields.h"
#include "frontend/fx/fx_file.h"
#include "frontend/fx/read_fx_graph.h"
#include "tcc/graph/graph.h"
#include "tcc/rules/limits.h"
#include "tcc/support/diagnostics.h"

namespace tcc::fx {

namespace {

using Json = nlohmann::json;

constexpr int64_t kMajor = 1;
// Bodies within bodies: no program nests cond and scan deeper, and reader and importer recurse.
constexpr int kDeepestBody = 32;

/// A file of another version may have other keys: that it is one is said first.
void check_version(const Json& json, const std::string& file) {
  if (!json.is_object() || !json.contains("version")) return;  // said by Fields
  const Json& version = json["version"];
  const bool is_pair = version.is_array() && version.size() == 2 && integer_in(version[0]) && integer_in(version[1]);
  if (!is_pair) malformed(file, "`version` is not a pair of integers, major and minor");
  if (integer_in(version[0]) == kMajor) return;
  unsupported("unsupported-format", file,
              "this is tcc.fx JSON of version " + version[0].dump() + "." + version[1].dump() + ", " + std::to_string(kMajor) + " is read");
}

SymbolRange read_symbol(const Json& json, const std::string& place, std::optional<int64_t>* hint) {
  const Fields fields(json, place, {"min", "max", "hint"});
  const SymbolRange range{fields.maybe_integer("min"), fields.maybe_integer("max")};
  *hint = fields.maybe_integer("hint");
  if (range.low && range.high && *range.low > *range.high) fields.fail("`min` is above `max`");
  if (*hint && ((range.low && **hint < *range.low) || (range.high && **hint > *range.high)))
    fields.fail("`hint` is not within `min` and `max`");
  return range;
}

FileTensor read_weight(const Fields& fields) {
  FileTensor tensor;
  tensor.file = fields.text("file");
  tensor.offset = fields.natural("offset");
  tensor.length = fields.natural("length");
  const std::string dtype = fields.text("dtype");
  const auto known = parse_dtype(dtype);
  if (!known) unsupported("unsupported-dtype", fields.place(), "the weight is " + dtype);
  tensor.dtype = *known;
  for (const Json& size : fields.list("shape")) {
    tensor.shape.push_back(integer_in(size).value_or(-1));
    if (tensor.shape.back() < 0) fields.fail("`shape` has " + size.dump().substr(0, 100) + ", an integer of 0 or more was expected");
  }
  if (tensor.shape.size() > static_cast<size_t>(kMaxRank) || bounded_product(tensor.shape) < 0)
    throw Error(ExitCode::model, "too-large", fields.place(),
                "the shape is " + tcc::to_string(std::span<const int64_t>(tensor.shape)).substr(0, 200));
  tensor.strides = row_major_strides(tensor.shape);
  if (!fields.has("stride")) return tensor;
  tensor.strides.clear();
  for (const Json& stride : fields.list("stride")) {
    tensor.strides.push_back(integer_in(stride).value_or(-1));
    if (tensor.strides.back() < 0) fields.fail("`stride` has " + stride.dump().substr(0, 100) + ", an integer of 0 or more was expected");
  }
  if (tensor.strides.size() != tensor.shape.size()) fields.fail("`stride` and `shape` differ in length");
  return tensor;
}

class FileReader {
 public:
  FileReader(std::string file, FxFile& result) : file_(std::move(file)), result_(result) {}

  void read(const Json& json) {
    check_version(json, file_);
    const Fields fields(json, file_, {"format", "version", "entry", "symbols", "weights", "graphs", "meta", "extra"});
    if (fields.text("format") != "tcc.fx") fields.fail("`format` is not tcc.fx");
    fields.list("version");
    for (const char* free : {"meta", "extra"}) {
      if (fields.has(free)) fields.object(free);
    }
    read_symbols(fields);
    read_weights(fields);
    for (const Json& graph : fields.list("graphs")) add_graph(graph);
    read_functions(fields.text("entry"));
  }

 private:
  struct Entry {
    const Json* json;
    std::string role;
    GraphRef body;         ///< of role body, once it was read
    bool is_open = false;  ///< being read
  };

  void read_symbols(const Fields& fields) {
    if (!fields.has("symbols")) return;
    for (const auto& [name, symbol] : fields.object("symbols").items()) {
      if (name.empty()) fields.fail("a symbol has no name");
      std::optional<int64_t> hint;
      symbols_[name] = read_symbol(symbol, file_ + ": symbol `" + name + "`", &hint);
      if (hint) hints_[name] = *hint;
    }
  }

  void read_weights(const Fields& fields) {
    if (!fields.has("weights")) return;
    for (const Json& json : fields.list("weights")) {
      const Fields weight(json, file_ + ": weight " + std::to_string(result_.weights.size()),
                          {"fqn", "file", "offset", "length", "dtype", "shape", "stride"});
      const std::string fqn = weight.text("fqn");
      if (!result_.weights.emplace(fqn, read_weight(weight)).second) weight.fail("the fqn `" + fqn + "` stands twice in `weights`");
    }
  }

  void add_graph(const Json& json) {
    constexpr auto roles = std::to_array<std::string_view>({"forward", "backward", "joint", "partial", "body"});
    if (!json.is_object()) malformed(file_, "a graph is " + std::string(json.type_name()) + ", an object was expected");
    const Fields fields(json, file_ + ": graph " + std::to_string(graphs_.size()),
                        {"id", "role", "inputs", "values", "nodes", "outputs", "guards", "meta", "extra"});
    const std::string id = fields.text("id"), role = fields.text("role");
    if (std::find(roles.begin(), roles.end(), role) == roles.end()) fields.fail("`role` is `" + role + "`, which is not a role of a graph");
    if (!graphs_.emplace(id, Entry{&json, role, nullptr}).second) fields.fail("the id `" + id + "` stands twice in `graphs`");
    order_.push_back(id);
  }

  void read_functions(const std::string& entry) {
    const auto found = graphs_.find(entry);
    if (found == graphs_.end()) malformed(file_, "`entry` is `" + entry + "`, which is not a graph of the file");
    if (found->second.role == "body") malformed(file_, "`entry` is `" + entry + "`, a graph of role body");
    std::stable_partition(order_.begin(), order_.end(), [&](const std::string& id) { return id == entry; });
    for (const std::string& id : order_) {
      Entry& graph = graphs_.at(id);
      if (graph.role == "body") body_of(id, graph);
      else result_.functions.push_back(read_graph(id, graph));
    }
  }

  FxFunction read_graph(const std::string& id, Entry& graph) {
    const std::string place = file_ + ":" + id;
    if (graph.is_open) malformed(place, "the graph contains itself");
    if (++depth_ > kDeepestBody) malformed(place, "graphs nest more than " + std::to_string(kDeepestBody) + " deep");
    graph.is_open = true;
    FxFunction function;
    function.id = id;
    function.role = graph.role;
    function.program.name = id;
    function.program.symbols = symbols_;
    function.program.hints = hints_;
    const FxContext context{symbols_, [&](const std::string& inner, const std::string& where) {
                              const auto found = graphs_.find(inner);
                              if (found == graphs_.end()) malformed(where, "the file has no graph `" + inner + "`");
                              if (found->second.role != "body") malformed(where, "the graph `" + inner + "` is not of role body");
                              return body_of(inner, found->second);
                            }};
    fx::read_graph(context, *graph.json, place, function);
    graph.is_open = false;
    --depth_;
    return function;
  }

  GraphRef body_of(const std::string& id, Entry& graph) {
    if (graph.body == nullptr) { graph.body = std::make_shared<const ProgramGraph>(read_graph(id, graph).program.graph); }
    return graph.body;
  }

  std::string file_;
  FxFile& result_;
  std::map<std::string, SymbolRange> symbols_;
  std::map<std::string, int64_t> hints_;
  std::map<std::string, Entry> graphs_;
  std::vector<std::string> order_;
  int depth_ = 0;
};

}  // namespace

FxFile read_fx_file(std::string_view text, const std::string& file) {
  FxFile result;
  FileReader(file, result).read(parse_strict_json(text, file));
  return result;
}

}  // namespace tcc::fx
