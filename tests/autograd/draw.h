// Shapes and attributes at random, small and in the forms that matter: extents of one and zero, broadcasting, some of the axes.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <utility>
#include <vector>

#include "tcc/support/random.h"
#include "tcc/support/tensor.h"

namespace tcc {

/// Draws shapes and attributes; the n-th draw of a seed is always the same.
class Draw {
 public:
  Draw(uint64_t seed, bool empty) : stream_{seed, 3, 0}, empty_(empty) {}
  /// In [low, high].
  int64_t integer(int64_t low, int64_t high) { return stream_.integer(next_++, low, high + 1); }
  bool flip() { return integer(0, 1) == 1; }
  double real(double low, double high) { return low + (high - low) * static_cast<double>(stream_.uniform(next_++)); }
  template <class T> T one_of(std::initializer_list<T> values) {
    return *(values.begin() + integer(0, static_cast<int64_t>(values.size()) - 1));
  }
  /// Few elements; in draws that are to be empty, one extent is zero where the op allows it.
  Shape shape(int64_t least_rank, int64_t most_rank, bool may_be_empty = true) {
    Shape shape;
    for (int64_t rank = integer(least_rank, most_rank); rank > 0; --rank) shape.push_back(one_of<int64_t>({1, 2, 2, 3, 3, 4}));
    if (empty_ && may_be_empty && !shape.empty()) shape[static_cast<size_t>(axis(shape))] = 0;
    return shape;
  }
  int64_t axis(const Shape& shape) { return integer(0, static_cast<int64_t>(shape.size()) - 1); }
  bool empty() const { return empty_; }
  /// A shape that broadcasts to `shape`: fewer axes, some of extent 1.
  Shape broadcast_from(const Shape& shape) {
    Shape from(shape.begin() + integer(0, static_cast<int64_t>(shape.size())), shape.end());
    for (int64_t& extent : from) extent = integer(0, 2) == 0 ? 1 : extent;
    return from;
  }
  std::vector<int64_t> some_axes(const Shape& shape, bool at_least_one = false) {
    std::vector<int64_t> axes;
    for (size_t i = 0; i < shape.size(); ++i) {
      if (flip()) axes.push_back(static_cast<int64_t>(i));
    }
    if (axes.empty() && at_least_one) axes.push_back(axis(shape));
    return axes;
  }
  std::vector<int64_t> permutation(size_t size) {
    std::vector<int64_t> order(size);
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = size; i-- > 1;) std::swap(order[i], order[static_cast<size_t>(integer(0, static_cast<int64_t>(i)))]);
    return order;
  }
  std::vector<int64_t> per_axis(size_t count, int64_t low, int64_t high) {
    std::vector<int64_t> values(count);
    for (int64_t& value : values) value = integer(low, high);
    return values;
  }

 private:
  RandomStream stream_;
  uint64_t next_ = 0;
  bool empty_;
};

}  // namespace tcc
