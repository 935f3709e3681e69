// The text of --optimizer.

#include "autograd/option_text.h"
#include "tcc/autograd/optimizer.h"

namespace tcc {

OptimizerOptions parse_optimizer(std::string_view text) {
  using Kind = OptimizerOptions::Kind;
  const autograd::OptionText parsed("optimizer", text);
  OptimizerOptions options;
  if (parsed.name() == "sgd") options.kind = Kind::sgd;
  else if (parsed.name() == "adam") options.kind = Kind::adam;
  else if (parsed.name() == "adamw") options.kind = Kind::adamw;
  else if (parsed.name() == "adagrad") options.kind = Kind::adagrad;
  else parsed.refuse("known are sgd, adam, adamw and adagrad");
  const bool sgd = options.kind == Kind::sgd, adagrad = options.kind == Kind::adagrad, adam = !sgd && !adagrad;
  if (options.kind == Kind::adamw) options.weight_decay = 1e-2;
  if (adagrad) {
    options.lr = 1e-2;
    options.epsilon = 1e-10;
  }
  for (const auto& [key, value] : parsed.items()) {
    if (key == "lr") options.lr = parsed.number(value);
    else if (key == "weight_decay") options.weight_decay = parsed.number(value);
    else if (key == "maximize") options.maximize = parsed.truth(value);
    else if (key == "momentum" && sgd) options.momentum = parsed.number(value);
    else if (key == "dampening" && sgd) options.dampening = parsed.number(value);
    else if (key == "nesterov" && sgd) options.nesterov = parsed.truth(value);
    else if (key == "beta1" && adam) options.beta1 = parsed.number(value);
    else if (key == "beta2" && adam) options.beta2 = parsed.number(value);
    else if (key == "eps" && !sgd) options.epsilon = parsed.number(value);
    else if (key == "lr_decay" && adagrad) options.lr_decay = parsed.number(value);
    else if (key == "initial_accumulator_value" && adagrad) options.initial_accumulator_value = parsed.number(value);
    else {
      const char* own = sgd ? "momentum, dampening, nesterov" : adam ? "beta1, beta2, eps" : "eps, lr_decay, initial_accumulator_value";
      parsed.refuse("`" + std::string(key) + "` is not an option of it, known are lr, weight_decay, maximize, " + own);
    }
  }
  for (double beta : {options.beta1, options.beta2}) {
    if (beta < 0 || beta >= 1) parsed.refuse("a beta is " + std::to_string(beta) + ", at least 0 and below 1 is needed");
  }
  if (options.nesterov && (options.momentum <= 0 || options.dampening != 0)) parsed.refuse("nesterov needs a momentum and no dampening");
  return options;
}

}  // namespace tcc
