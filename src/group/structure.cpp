#include "group/structure.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_map>

#include "tcc/graph/ranges.h"

namespace tcc::group {
namespace {

/// About what a node takes.
constexpr size_t kBytesOfNode = 256;

class Writer {
 public:
  explicit Writer(std::string& text) : text_(text) {}

  void number(int64_t value) {
    const size_t end = text_.size();
    text_.resize(end + sizeof value);
    std::memcpy(text_.data() + end, &value, sizeof value);
  }
  void size(size_t value) { number(static_cast<int64_t>(value)); }

  void type(const Type& type) {
    number(static_cast<int64_t>(type.dtype));
    size(type.dims.size());
    for (const Dim& dim : type.dims) number(dim.bound);
  }

  void attribute(const AttrValue& value) {
    size(value.index());
    std::visit(*this, value);
  }

  // Values of attributes; floats by their bits.
  void operator()(bool value) { number(value); }
  void operator()(int64_t value) { number(value); }
  void operator()(double value) { number(std::bit_cast<int64_t>(value)); }
  void operator()(DType value) { number(static_cast<int64_t>(value)); }
  void operator()(const std::string& value) {
    size(value.size());
    text_ += value;
  }
  template <class T> void operator()(const std::vector<T>& values) {
    size(values.size());
    for (const T value : values) (*this)(value);
  }

 private:
  std::string& text_;
};

}  // namespace

void append_computation(std::string& text, const Node& node) {
  Writer writer(text);
  writer.number(static_cast<int64_t>(node.op));
  writer.size(node.operands.size());
  for (const Value* operand : node.operands) {
    if (operand) writer.type(operand->type);
    else writer.number(-1);
  }
  writer.size(node.results.size());
  for (const Value* result : node.results) writer.type(result->type);
  writer.size(node.attrs.all().size());
  for (const auto& [name, value] : node.attrs.all()) {
    writer(name);
    writer.attribute(value);
  }
}

std::optional<std::string> structure_of(const Unit& unit) {
  std::string text;
  text.reserve(kBytesOfNode * unit.nodes.size());
  Writer writer(text);
  std::unordered_map<const Value*, int64_t> numbers;
  const auto value = [&](const Value* value) {
    writer.number(value ? numbers.emplace(value, static_cast<int64_t>(numbers.size())).first->second : -1);
  };
  writer.number(static_cast<int64_t>(unit.kind));
  writer.size(unit.inputs.size());
  for (size_t i = 0; i < unit.inputs.size(); ++i) {
    value(unit.inputs[i]);
    writer.type(unit.inputs[i]->type);
    writer.number(!unit.constant.empty() && unit.constant[i]);
    writer.number(std::find(unit.maxima.begin(), unit.maxima.end(), unit.inputs[i]) != unit.maxima.end());
  }
  writer(unit.row_padding);
  writer.size(unit.order.size());
  for (const std::vector<int64_t>& order : unit.order) writer(order);
  writer.size(unit.nodes.size());
  for (const Node* node : unit.nodes) {
    if (node->op == Op::check_index_ || index_use(*node)) return std::nullopt;
    append_computation(text, *node);
    for (const Value* operand : node->operands) value(operand);
    for (const Value* result : node->results) value(result);
    writer.number(node == unit.anchor);
  }
  for (const Value* output : unit.outputs) value(output);
  return text;
}

}  // namespace tcc::group
