#include "schedule/cuda/forms.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "schedule/cuda/nest.h"
#include "schedule/cuda/split_k.h"
#include "tcc/loop/tensor_map.h"
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

int64_t Form::rows() const {
  int64_t rows = 1;
  for (size_t i = 0; i < m.size(); ++i) rows *= box.empty() ? m[i]->extent : align_up(m[i]->extent, box[i]);
  return rows;
}

namespace {

/// The axis that the dim moves along, alone among `dims`, and its step; nothing where that is not a sum of it and others.
std::optional<std::pair<size_t, int64_t>> axis_and_step(const Factor& factor, const VarRef& dim) {
  std::optional<std::pair<size_t, int64_t>> found;
  for (size_t axis = 0; axis < factor.indices.size(); ++axis) {
    if (!factor.indices[axis].uses(dim.get())) continue;
    bool inside = false;
    const int64_t step = factor.indices[axis].coefficient_of(dim.get(), &inside);
    if (found || inside || step < 1) return std::nullopt;
    found = {axis, step};
  }
  return found;
}

/// Elements of a box along an axis, so many apart.
int64_t most_in_box(int64_t step) { return step > kLongestStep ? 1 : kWidestBox / step; }

/// The sizes of a box with so many rows, of those that take the fewest boxes the one that is longest along the last dims. `longest`: of each dim.
class Boxes {
 public:
  Boxes(const std::vector<VarRef>& dims, std::vector<int64_t> longest) : dims_(dims), longest_(std::move(longest)), box_(dims.size(), 1) {}

  std::vector<int64_t> best(int64_t rows) {
    fill(dims_.size(), rows, 1);
    return best_;
  }

 private:
  void fill(size_t left, int64_t rows, int64_t boxes) {
    if (boxes >= fewest_) return;
    if (left == 0) {
      if (rows == 1) fewest_ = boxes, best_ = box_;
      return;
    }
    for (int64_t size = std::min(rows, longest_[left - 1]); size >= 1; --size) {
      if (rows % size != 0) continue;
      box_[left - 1] = size;
      fill(left - 1, rows / size, boxes * ceil_div(dims_[left - 1]->extent, size));
    }
  }

  const std::vector<VarRef>& dims_;
  std::vector<int64_t> longest_, box_, best_;
  int64_t fewest_ = std::numeric_limits<int64_t>::max();
};

}  // namespace

bool is_windowed(const Contraction& c, const Form& form) {
  const std::vector<VarRef>& all = c.m_dims;
  const auto longer = [](const VarRef& var) { return var->extent > 1; };
  if (std::count_if(all.begin(), all.end(), longer) != static_cast<std::ptrdiff_t>(form.m.size())) return false;
  const auto summed = std::find_if(c.k_dims.begin(), c.k_dims.end(), [&](const VarRef& var) { return c.a.indices.back() == Index(var); });
  if (summed == c.k_dims.end() || c.a.buffer->row_padding() > 0) return false;
  const auto moves_alone = [&](const VarRef& var) { return axis_and_step(c.a, var).has_value(); };
  if (!std::all_of(form.m.begin(), form.m.end(), moves_alone)) return false;
  const Access access = access_of(c.a.buffer, c.a.indices, false, c.a.guarded);
  bool apart = c.a.guarded;
  for (size_t i = 1; i < form.m.size(); ++i) {
    const auto outer = stride_of(access, form.m[i - 1].get()), inner = stride_of(access, form.m[i].get());
    apart = apart || !outer || !inner || *outer != *inner * form.m[i]->extent;
  }
  return apart;
}

Form in_boxes(const Contraction& c, Form form, int64_t rows, int64_t step) {
  std::vector<int64_t> longest;
  for (const VarRef& var : form.m) {
    const int64_t along = axis_and_step(c.a, var)->second;
    longest.push_back(most_in_box(along));
  }
  form.box = Boxes(form.m, longest).best(rows);
  const auto summed = std::find_if(form.k.begin(), form.k.end(), [&](const VarRef& var) { return c.a.indices.back() == Index(var); });
  std::rotate(summed, summed + 1, form.k.end());
  form.filled_to = step;
  return form;
}

std::vector<Form> forms_of_image_sums(const Contraction& c, int64_t step) {
  constexpr int64_t kMmaStep = 16;  // every instruction takes so many terms of 16 bits
  const auto last_of = [](const Factor& factor, const std::vector<VarRef>& dims) {
    const auto found = std::find_if(dims.begin(), dims.end(), [&](const VarRef& var) { return factor.indices.back() == Index(var); });
    return found == dims.end() ? nullptr : *found;
  };
  const VarRef m = last_of(c.a, c.m_dims), n = last_of(c.b, c.n_dims);
  if (!m || !n || c.k_dims.size() < 2 || c.a.buffer->row_padding() > 0 || c.b.buffer->row_padding() > 0) return {};
  std::vector<int64_t> longest;
  for (const VarRef& var : c.k_dims) {
    const auto in_a = axis_and_step(c.a, var), in_b = axis_and_step(c.b, var);
    if (!in_a || !in_b) return {};
    const int64_t along = std::max(in_a->second, in_b->second);
    longest.push_back(most_in_box(along));
  }
  Form form;
  form.m = {m};
  form.n = {n};
  form.k = c.k_dims;
  for (const VarRef& var : c.dims) {
    if (var != m && var != n) form.batch.push_back(var);
  }
  // Boxes with elements outside of both images would add what is next to zeros, which may not be finite.
  double best = std::numeric_limits<double>::max();
  for (int64_t size = 2 * step; size >= kMmaStep; size -= kMmaStep) {
    const std::vector<int64_t> box = Boxes(form.k, longest).best(size);
    bool fills = !box.empty();
    for (size_t i = 0; i < box.size(); ++i) fills = fills && form.k[i]->extent % box[i] == 0;
    const double away = std::abs(std::log2(static_cast<double>(size) / static_cast<double>(step)));
    if (!fills || away >= best) continue;
    best = away;
    form.sum_box = box;
  }
  return form.sum_box.empty() ? std::vector<Form>() : std::vector<Form>{form};
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

/// Cuts the dims into boxes and puts these one after the other; returns the dims, outermost first.
std::vector<std::string> cut_into_boxes(Chooser& chooser, const std::vector<std::string>& dims, const std::vector<int64_t>& box) {
  std::vector<std::string> boxes, inside;
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t extent = chooser.extent(dims[i]);
    if (box[i] == 1) {
      boxes.push_back(dims[i]);
    } else if (box[i] == extent) {
      inside.push_back(dims[i]);
    } else {
      std::vector<Argument> arguments{Chooser::arg(dims[i]), Chooser::arg(box[i])};
      if (extent % box[i] != 0) arguments.push_back(Chooser::key("tail", "pad"));
      chooser.add("split", std::move(arguments));
      boxes.push_back(dims[i] + "_0");
      inside.push_back(dims[i] + "_1");
    }
  }
  boxes.insert(boxes.end(), inside.begin(), inside.end());
  return boxes;
}

}  // namespace

Merged merge(Chooser& chooser, const Contraction& c, const Form& form, bool in_order) {
  std::vector<std::string> m = names_of(form.m);
  const std::vector<std::string> n = names_of(form.n);
  std::vector<std::string> k = names_of(form.k);
  if (!form.box.empty()) m = cut_into_boxes(chooser, m, form.box);
  if (in_order || m.size() > 1 || n.size() > 1 || !form.sum_box.empty()) {  // parts of such a sum are in memory in the order of the nest
    std::vector<std::string> order = names_of(form.batch);
    order.insert(order.end(), m.begin(), m.end());
    order.insert(order.end(), n.begin(), n.end());
    if (!form.box.empty() || order != names_of(c.dims)) chooser.reorder(order);
  }
  if (!form.sum_box.empty()) k = cut_into_boxes(chooser, k, form.sum_box);
  if (k != names_of(c.k_dims)) chooser.reorder(k);
  Merged merged;
  merged.m = fuse_everything(chooser, m);
  merged.n = fuse_everything(chooser, n);
  merged.k = fuse_everything(chooser, form.filled_to > 0 ? filled_up(chooser, k, form.filled_to) : k);
  merged.is_filled = form.filled_to > 0;
  const std::optional<Contraction> result = as_contraction(chooser.find(merged.m), nullptr, merged.is_filled || !form.box.empty());
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
  return ends(c.a, c.k_dims[0]) && ends(c.b, c.k_dims[0]);
}

Merged cut_sum(Chooser& chooser, const Merged& whole, int64_t parts, int64_t step, bool as_merged) {
  const Contraction& c = whole.contraction;
  const std::string nest = split_sum(chooser, c, parts, whole.is_filled || zeros_past_the_end(whole) ? step : 0, as_merged);
  const std::optional<Contraction> part = as_contraction(chooser.find(nest), nullptr, whole.is_filled);
  if (!part) internal_error("a part of the contraction `" + c.accumulator + "` is none");
  return {whole.m + "_part", whole.n + "_part", part->k_dims[0]->name, *part, whole.is_filled};
}

}  // namespace tcc::schedule::cuda
