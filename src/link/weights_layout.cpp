#include "link/weights_layout.h"

#include <cstring>
#include <unordered_map>

#include "tcc/runtime/checksum.h"

namespace tcc::link {
namespace {

constexpr std::byte kZeros[program::kWeightAlignment] = {};

}  // namespace

WeightsLayout lay_out_weights(const std::vector<Tensor>& weights) {
  WeightsLayout layout;
  std::unordered_multimap<uint64_t, size_t> by_hash;
  for (size_t w = 0; w < weights.size(); w++) {
    const std::span<const std::byte> bytes(weights[w].bytes(), static_cast<size_t>(weights[w].size_bytes()));
    const uint64_t hash = program::checksum(bytes.data(), bytes.size());
    bool found = false;
    for (auto [same, end] = by_hash.equal_range(hash); same != end && !found; ++same) {
      const Tensor& earlier = weights[same->second];
      if (static_cast<size_t>(earlier.size_bytes()) == bytes.size() && std::memcmp(earlier.bytes(), bytes.data(), bytes.size()) == 0) {
        layout.offsets.push_back(layout.offsets[same->second]);
        found = true;
      }
    }
    if (found || bytes.empty()) {
      if (!found) layout.offsets.push_back(layout.size_bytes);
      continue;
    }
    by_hash.emplace(hash, w);
    layout.offsets.push_back(layout.size_bytes);
    layout.pieces.push_back(bytes);
    const size_t padding = (program::kWeightAlignment - bytes.size() % program::kWeightAlignment) % program::kWeightAlignment;
    if (padding > 0) layout.pieces.emplace_back(kZeros, padding);
    layout.size_bytes += bytes.size() + padding;
    layout.hash = program::add_weight(layout.hash, hash, layout.offsets.back());
  }
  return layout;
}

bool is_stored(const StateTensor& tensor) { return !tensor.view && tensor.initial.defined() && tensor.converted_from.empty(); }

std::vector<Tensor> stored_tensors(const LinkInput& input) {
  std::vector<Tensor> tensors = input.weights;
  for (const StateTensor& tensor : input.program.state.tensors) {
    if (is_stored(tensor)) tensors.push_back(tensor.initial);
  }
  return tensors;
}

}  // namespace tcc::link
