// Attributes of nodes: a short sorted list, searched by name.

#include <algorithm>

#include "tcc/graph/graph.h"
#include "tcc/support/diagnostics.h"

namespace tcc {
namespace {

bool before(const std::pair<std::string, AttrValue>& entry, std::string_view name) { return entry.first < name; }

[[noreturn]] void missing(std::string_view name) { internal_error("attribute `" + std::string(name) + "` is missing or of another kind"); }

template <class T> const T& get(const Attrs& attrs, std::string_view name) {
  const AttrValue* value = attrs.find(name);
  if (value != nullptr) {
    if (const T* typed = std::get_if<T>(value)) return *typed;
  }
  missing(name);
}

}  // namespace

Attrs::Attrs(std::initializer_list<std::pair<std::string, AttrValue>> list) {
  for (const auto& [name, value] : list) set(name, value);
}

const Attrs::List& Attrs::all() const {
  static const List none;
  return list_ ? *list_ : none;
}

Attrs::List& Attrs::changed() {
  if (!list_ || list_.use_count() > 1) list_ = std::make_shared<List>(all());
  return *list_;
}

void Attrs::set(std::string_view name, AttrValue value) {
  List& list = changed();
  const auto place = std::lower_bound(list.begin(), list.end(), name, before);
  if (place != list.end() && place->first == name) {
    place->second = std::move(value);
  } else {
    list.emplace(place, std::string(name), std::move(value));
  }
}

void Attrs::erase(std::string_view name) {
  if (!has(name)) return;
  List& list = changed();
  list.erase(std::lower_bound(list.begin(), list.end(), name, before));
}

const AttrValue* Attrs::find(std::string_view name) const {
  for (const auto& [key, value] : all()) {
    if (key == name) return &value;
  }
  return nullptr;
}

bool Attrs::get_bool(std::string_view name) const { return get<bool>(*this, name); }
int64_t Attrs::get_int(std::string_view name) const { return get<int64_t>(*this, name); }
const std::string& Attrs::get_string(std::string_view name) const { return get<std::string>(*this, name); }
DType Attrs::get_dtype(std::string_view name) const { return get<DType>(*this, name); }
const std::vector<int64_t>& Attrs::get_ints(std::string_view name) const { return get<std::vector<int64_t>>(*this, name); }
const std::vector<double>& Attrs::get_floats(std::string_view name) const { return get<std::vector<double>>(*this, name); }

double Attrs::get_float(std::string_view name) const {
  const AttrValue* value = find(name);
  if (value != nullptr) {
    if (const double* number = std::get_if<double>(value)) return *number;
    if (const int64_t* number = std::get_if<int64_t>(value)) return static_cast<double>(*number);
  }
  missing(name);
}

}  // namespace tcc
