// Where each weight lies in the blob: in order, aligned, equal contents once.
#pragma once

#include <span>
#include <vector>

#include "tcc/link/link.h"

namespace tcc::link {

struct WeightsLayout {
  std::vector<uint64_t> offsets;                   ///< per weight; ascending over those with contents of their own
  std::vector<std::span<const std::byte>> pieces;  ///< the blob: contents and the zeros between them
  uint64_t size_bytes = 0;
  uint64_t hash = 0;  ///< of contents and offsets
};

WeightsLayout lay_out_weights(const std::vector<Tensor>& weights);

/// Whether the blob holds its first contents: they are no repeated pattern, and no other tensor's converted.
bool is_stored(const StateTensor& tensor);
/// What the blob holds: the weights, then the first contents of state tensors that are stored, in the state's order.
std::vector<Tensor> stored_tensors(const LinkInput& input);

}  // namespace tcc::link
