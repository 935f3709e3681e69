#include "tcc/loop/first_form.h"

namespace tcc::loop {

FirstForm first_form(Unit unit) {
  FirstForm form;
  form.key = print(unit);
  form.unit = std::make_shared<const Unit>(std::move(unit));
  return form;
}

}  // namespace tcc::loop
