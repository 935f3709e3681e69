#include "schedule/cuda/forms.h"

#include <algorithm>
#include <numeric>

#include "schedule/cuda/nest.h"
#include "schedule/cuda/split_k.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/integer_math.h"

namespace tcc::schedule::cuda {

using namespace tcc::loop;

bool is_contiguous(const Factor& factor, const std::vector<VarRef>& dims) {
  return stride_of(access_of(factor.buffer, factor.indices, false, factor.guarded), dims.back().get()) == 1;
}

int64_t access_width(const Factor& factor, const std::vector<VarRef>& dims) {
  const Access access = access_of(factor.buffer, factor.indices, false, factor.guarded);
  int64_t run = 1, width = kWidestAccess / std::max(size_bytes(factor.buffer->dtype),
                                                    size_bytes(factor.dtype()));  // what tiles and steps are multiples of, too
  std::vector<const Var*> along;
  for (size_t i = dims.size(); i-- > 0;) {
    if (dims[i]->extent == 1) continue;
    if (stride_of(access, dims[i].get()) != run) break;
    run *= dims[i]->extent;
    along.push_back(dims[i].get());
  }
  if (along.empty()) return 1;
  width = std::gcd(std::gcd(width, run), access.flat.constant());
  for (const Term& term : access.flat.terms()) {
    const bool own = term.atom.kind == Atom::Kind::var && std::find(along.begin(), along.end(), term.atom.var.get()) != along.end();
    if (!own) width = std::gcd(width, term.coefficient);
  }
  return width;
}

namespace {

class Forms {
 public:
  Forms(const Contraction& c, const Loop& nest) : c_(c) {
    for (const Stmt& stmt : nest.body) {
      if (std::holds_alternative<Reduce>(stmt.node)) continue;
      for (const Access& access : accesses_of(Block{stmt})) results_.push_back(access);
    }
  }

  std::vector<Form> all() const {
    std::vector<Form> forms;
    for (const std::vector<VarRef>& m : sides(c_.m_dims)) {
      for (const std::vector<VarRef>& n : sides(c_.n_dims)) forms.push_back(form_of(m, n));
    }
    return forms;
  }

 private:
  /// The dims of one side that may become one: from some dim on all that follow it in memory, and the longest alone.
  std::vector<std::vector<VarRef>> sides(const std::vector<VarRef>& dims) const {
    std::vector<VarRef> ordered;
    for (const VarRef& var : dims) {
      if (var->extent > 1) ordered.push_back(var);
    }
    if (ordered.empty()) return {};
    const auto distance = [&](const VarRef& var) {
      for (const Access& access : results_) {
        if (access.store) return stride_of(access, var.get()).value_or(0);
      }
      return int64_t{0};
    };
    std::stable_sort(ordered.begin(), ordered.end(), [&](const VarRef& x, const VarRef& y) { return distance(x) > distance(y); });
    std::vector<std::vector<VarRef>> result;
    for (size_t first = ordered.size(); first-- > 0;)
      result.emplace_back(ordered.begin() + static_cast<std::ptrdiff_t>(first), ordered.end());
    const VarRef longest =
        *std::max_element(ordered.begin(), ordered.end(), [](const VarRef& x, const VarRef& y) { return x->extent < y->extent; });
    if (longest != ordered.back()) result.push_back({longest});
    return result;
  }

  Form form_of(const std::vector<VarRef>& m, const std::vector<VarRef>& n) const {
    Form form;
    form.m = m;
    form.n = n;
    const auto in = [](const std::vector<VarRef>& vars, const VarRef& var) {
      return std::find(vars.begin(), vars.end(), var) != vars.end();
    };
    for (const VarRef& var : c_.dims) {
      if (!in(m, var) && !in(n, var)) form.batch.push_back(var);
    }
    form.divides = divides(m) || divides(n);
    // The dim along which the widest accesses are possible is the last of the sum.
    for (size_t last = c_.k_dims.size(); last-- > 0;) {
      std::vector<VarRef> k = c_.k_dims;
      const auto at = k.begin() + static_cast<std::ptrdiff_t>(last);
      std::rotate(at, at + 1, k.end());
      const int64_t a = std::max(access_width(c_.a, k), access_width(c_.a, m)), b = std::max(access_width(c_.b, k), access_width(c_.b, n));
      if (!form.k.empty() && 1.0 / static_cast<double>(a) + 1.0 / static_cast<double>(b) >=
                                 1.0 / static_cast<double>(form.a_width) + 1.0 / static_cast<double>(form.b_width))
        continue;
      form.k = k;
      form.a_width = a;
      form.b_width = b;
    }
    return form;
  }

  /// Whether the dims, as one, leave an address of the epilogue that is no sum.
  bool divides(const std::vector<VarRef>& dims) const {
    for (size_t i = 1; i < dims.size(); i++) {
      for (const Access& access : results_) {
        const auto outer = stride_of(access, dims[i - 1].get()), inner = stride_of(access, dims[i].get());
        if (!outer || !inner || *outer != *inner * dims[i]->extent) return true;
      }
    }
    return false;
  }

  const Contraction& c_;
  std::vector<Access> results_;  ///< of the epilogue, the store of the result among them
};

std::vector<std::string> names_of(const std::vector<VarRef>& vars) {
  std::vector<std::string> names;
  for (const VarRef& var : vars) names.push_back(var->name);
  return names;
}

/// Whether an axis of the factor ends with the sum: elements past it are zeros.
bool ends(const Factor& factor, const VarRef& k) {
  for (size_t axis = 0; axis < factor.indices.size(); axis++) {
    if (factor.indices[axis] == Index(k) && factor.buffer->extents[axis] == k->extent) return true;
  }
  return false;
}

}  // namespace

int64_t Form::length() const {
  const int64_t all = iterations(k);
  return filled_to == 0 ? all : all / k.back()->extent * align_up(k.back()->extent, filled_to);
}

Form with_steps_of_one_dim(Form form, int64_t step) {
  const auto longest =
      std::max_element(form.k.begin(), form.k.end(), [](const VarRef& x, const VarRef& y) { return x->extent < y->extent; });
  std::rotate(longest, longest + 1, form.k.end());
  form.filled_to = step;
  return form;
}

std::vector<Form> forms_of(const Contraction& c, const Loop& nest) { return Forms(c, nest).all(); }

namespace {

/// The dims of the sum after the last one has grown to a multiple.
std::vector<std::string> filled_up(Chooser& chooser, std::vector<std::string> k, int64_t multiple) {
  const std::string last = k.back();
  const int64_t extent = chooser.extent(last), filled = align_up(extent, multiple);
  if (filled == extent) return k;
  chooser.add("split", {Chooser::arg(last), Chooser::arg(filled), Chooser::key("tail", "pad")});
  k.back() = last + "_0";
  k.push_back(last + "_1");
  return k;
}

}  // namespace

Merged merge(Chooser& chooser, const Contraction& c, const Form& form) {
  const std::vector<std::string> m = names_of(form.m), n = names_of(form.n), k = names_of(form.k);
  if (m.size() > 1 || n.size() > 1) {
    std::vector<std::string> order = names_of(form.batch);
    order.insert(order.end(), m.begin(), m.end());
    order.insert(order.end(), n.begin(), n.end());
    if (order != names_of(c.dims)) chooser.reorder(order);
  }
  if (k != names_of(c.k_dims)) chooser.reorder(k);
  Merged merged;
  merged.m = fuse_everything(chooser, m);
  merged.n = fuse_everything(chooser, n);
  merged.k = fuse_everything(chooser, form.filled_to > 0 ? filled_up(chooser, k, form.filled_to) : k);
  merged.is_filled = form.filled_to > 0;
  const std::optional<Contraction> result = as_contraction(chooser.find(merged.m), nullptr, merged.is_filled);
  if (!result) internal_error("the contraction `" + c.accumulator + "` with fused dims is none");
  merged.contraction = *result;
  return merged;
}

std::vector<std::string> batch_dims(const Contraction& c, const Merged& names) {
  std::vector<std::string> batch;
  for (const VarRef& var : c.dims) {
    if (var->name != names.m && var->name != names.n) batch.push_back(var->name);
  }
  return batch;
}

void split_into_tiles(Chooser& chooser, const std::string& dim, int64_t tile) {
  std::vector<Argument> arguments{Chooser::arg(dim), Chooser::arg(tile)};
  if (chooser.extent(dim) < tile) arguments.push_back(Chooser::key("tail", "pad"));
  chooser.add("split", std::move(arguments));
}

bool zeros_past_the_end(const Merged& merged) {
  const Contraction& c = merged.contraction;
  return merged.is_filled || (ends(c.a, c.k_dims[0]) && ends(c.b, c.k_dims[0]));
}

Merged cut_sum(Chooser& chooser, const Merged& whole, int64_t parts, int64_t step) {
  const Contraction& c = whole.contraction;
  const std::string nest = split_sum(chooser, c, parts, zeros_past_the_end(whole) ? step : 0);
  const std::optional<Contraction> part = as_contraction(chooser.find(nest), nullptr, whole.is_filled);
  if (!part) internal_error("a part of the contraction `" + c.accumulator + "` is none");
  return {whole.m + "_part", whole.n + "_part", part->k_dims[0]->name, *part, whole.is_filled};
}

}  // namespace tcc::schedule::cuda
