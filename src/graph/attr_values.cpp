// Comparison and hashing of attributes by their bits.

#include "tcc/graph/attr_values.h"

#include <bit>
#include <functional>

namespace tcc {
namespace {

struct HashBits {
  size_t operator()(bool flag) const { return flag; }
  size_t operator()(int64_t number) const { return std::hash<int64_t>()(number); }
  size_t operator()(double number) const { return std::hash<uint64_t>()(std::bit_cast<uint64_t>(number)); }
  size_t operator()(const std::string& text) const { return std::hash<std::string>()(text); }
  size_t operator()(DType dtype) const { return static_cast<size_t>(dtype); }
  template <class T> size_t operator()(const std::vector<T>& numbers) const {
    size_t hash = numbers.size();
    for (const T number : numbers) hash = combine_hashes(hash, (*this)(number));
    return hash;
  }
};

bool same_bits(double a, double b) { return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); }

}  // namespace

bool same_bits(const AttrValue& a, const AttrValue& b) {
  if (a.index() != b.index()) return false;
  if (const double* x = std::get_if<double>(&a)) return same_bits(*x, std::get<double>(b));
  if (const auto* x = std::get_if<std::vector<double>>(&a)) {
    const auto& y = std::get<std::vector<double>>(b);
    if (x->size() != y.size()) return false;
    for (size_t i = 0; i < x->size(); ++i) {
      if (!same_bits((*x)[i], y[i])) return false;
    }
    return true;
  }
  return a == b;
}

bool same_bits(const Attrs& a, const Attrs& b) {
  if (a.all().size() != b.all().size()) return false;
  for (size_t i = 0; i < a.all().size(); ++i) {
    if (a.all()[i].first != b.all()[i].first || !same_bits(a.all()[i].second, b.all()[i].second)) return false;
  }
  return true;
}

size_t hash_bits(const Attrs& attrs) {
  size_t hash = attrs.all().size();
  for (const auto& [name, value] : attrs.all()) {
    hash = combine_hashes(hash, std::hash<std::string>()(name));
    hash = combine_hashes(hash, std::visit(HashBits(), value));
  }
  return hash;
}

}  // namespace tcc
