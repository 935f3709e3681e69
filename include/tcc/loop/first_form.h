// First forms as stages hand them on: shared, with what tells them apart.
#pragma once

#include <memory>
#include <string>

#include "tcc/loop/loop.h"

namespace tcc::loop {

/// A unit before it is scheduled.
struct FirstForm {
  std::shared_ptr<const Unit> unit;
  std::string key;  ///< equal for equal units alone, whatever graph they come from
};

/// Lowering names parameters, loops and scalars by what they are, so the text of a unit is its key.
FirstForm first_form(Unit unit);

}  // namespace tcc::loop
