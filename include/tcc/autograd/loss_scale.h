// Loss scaling: gradients of 16-bit values that would be lost below the range of f16 are made S times larger, and divided by S before the update.
#pragma once

#include <string_view>

namespace tcc {

/// A step whose gradients are not all finite changes neither parameters nor the optimizer's tensors. A dynamic scale is then halved, and doubled
/// after 2000 steps without such a fault, as torch.amp.GradScaler does.
struct LossScale {
  double scale = 0;  ///< 0: none; of a dynamic one the first
  bool dynamic = false;
  double growth = 2, backoff = 0.5;
  int growth_interval = 2000;

  bool enabled() const { return scale != 0; }
};
/// "1024", "dynamic" (from 65536). Error usage "invalid-argument" names what is known.
LossScale parse_loss_scale(std::string_view text);

}  // namespace tcc
