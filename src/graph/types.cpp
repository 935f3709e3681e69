// Types of values: dtype, dimensions, layout.

#include "tcc/graph/graph.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/text.h"

namespace tcc {
namespace {

bool is_plain_identifier(std::string_view text) {
  if (text.empty() || (text[0] >= '0' && text[0] <= '9')) return false;
  for (const char c : text) {
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_')) return false;
  }
  return true;
}

std::string to_string(const Dim& dim) {
  if (dim.is_constant()) return std::to_string(dim.bound);
  std::string text = is_plain_identifier(dim.symbol) ? dim.symbol : print_quoted(dim.symbol);
  if (dim.bound >= 0) text += "<=" + std::to_string(dim.bound);
  return text;
}

template <class List, class Print> void append_list(std::string& text, const List& list, Print print) {
  text += '[';
  bool first = true;
  for (const auto& item : list) {
    if (!first) text += ", ";
    first = false;
    text += print(item);
  }
  text += ']';
}

std::string to_string(const Layout& layout) {
  const auto number = [](auto value) { return std::to_string(value); };
  std::string text = " layout(order ";
  append_list(text, layout.order, number);
  if (!layout.tiles.empty()) {
    text += ", tiles ";
    append_list(text, layout.tiles, [](const Layout::Tile& tile) { return std::to_string(tile.axis) + " x " + std::to_string(tile.size); });
  }
  if (!layout.padded.empty()) {
    text += ", padded ";
    append_list(text, layout.padded, number);
  }
  return text + ")";
}

}  // namespace

Type::Type(DType type_dtype, Shape shape) : dtype(type_dtype) {
  dims.reserve(shape.size());
  for (const int64_t extent : shape) dims.emplace_back(extent);
}

Type Type::unranked(DType dtype) {
  Type type;
  type.dtype = dtype;
  type.ranked = false;
  return type;
}

bool Type::is_static() const {
  if (!ranked) return false;
  for (const Dim& dim : dims) {
    if (!dim.is_constant()) return false;
  }
  return true;
}

Shape Type::shape() const {
  check(is_static(), "the shape of a type that is not static");
  Shape result;
  result.reserve(dims.size());
  for (const Dim& dim : dims) result.push_back(dim.bound);
  return result;
}

int64_t Type::count() const { return num_elements(shape()); }
int64_t Type::size_bytes() const { return storage_bytes(dtype, count()); }

bool Type::operator==(const Type& other) const {
  if (dtype != other.dtype || ranked != other.ranked || dims != other.dims) return false;
  if (layout == other.layout) return true;
  return layout != nullptr && other.layout != nullptr && *layout == *other.layout;
}

std::string to_string(const Type& type) {
  std::string text(name_of(type.dtype));
  if (!type.ranked) return text + "[*]";
  append_list(text, type.dims, [](const Dim& dim) { return to_string(dim); });
  if (type.layout != nullptr) text += to_string(*type.layout);
  return text;
}

}  // namespace tcc
