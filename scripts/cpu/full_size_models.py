"""Full-size models with random weights, written with the onnx package alone, as exporters write them: opset 18, f32, batch 1."""
import pathlib

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save


class Model:
    """Nodes and weights of a model that is being written."""

    def __init__(self):
        self.nodes, self.weights, self.random = [], [], np.random.default_rng(0)

    def op(self, kind, *inputs, **attributes):
        name = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name="node_" + name, **attributes))
        return name

    def constant(self, array):
        name = f"const_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name

    def scalar(self, value):
        return self.constant(np.float32(value))

    def sizes(self, *values):
        return self.constant(np.array(values, np.int64))

    def weight(self, *shape, terms=None):
        return self.constant((self.random.standard_normal(shape) / np.sqrt(terms or shape[-1])).astype(np.float32))

    def save(self, path, inputs, output, shape):
        outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, list(shape))]
        graph = helper.make_graph(self.nodes, "main", inputs, outputs, self.weights)
        data = pathlib.Path(str(path) + ".data")
        data.unlink(missing_ok=True)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
        save(model, str(path), save_as_external_data=True, location=data.name)

    # ------------------------------------------------------------------------------------------------ layers

    def conv(self, x, channels, results, window, stride=1, groups=1, activation=None):
        terms = channels // groups * window * window
        x = self.op("Conv", x, self.weight(results, channels // groups, window, window, terms=terms), self.weight(results, terms=100),
                    kernel_shape=[window] * 2, strides=[stride] * 2, pads=[window // 2] * 4, group=groups)
        return self.op(activation, x) if activation else x

    def linear(self, x, inputs, outputs):
        return self.op("Add", self.op("MatMul", x, self.weight(inputs, outputs, terms=inputs)), self.weight(outputs, terms=100))

    def norm(self, x, width):
        ones, zeros = self.constant(np.ones(width, np.float32)), self.constant(np.zeros(width, np.float32))
        return self.op("LayerNormalization", x, ones, zeros, axis=-1, epsilon=1e-5)

    def gelu(self, x):
        erf = self.op("Erf", self.op("Div", x, self.scalar(2 ** 0.5)))
        return self.op("Mul", self.op("Mul", x, self.scalar(0.5)), self.op("Add", erf, self.scalar(1)))

    def attention(self, x, length, width, heads, mask):
        def head(order):
            split = self.op("Reshape", self.linear(x, width, width), self.sizes(1, length, heads, width // heads))
            return self.op("Transpose", split, perm=order)
        q, k, v = head([0, 2, 1, 3]), head([0, 2, 3, 1]), head([0, 2, 1, 3])
        scores = self.op("Mul", self.op("MatMul", q, k), self.scalar((width // heads) ** -0.5))
        scores = self.op("Softmax", self.op("Add", scores, mask) if mask else scores, axis=-1)
        joined = self.op("Transpose", self.op("MatMul", scores, v), perm=[0, 2, 1, 3])
        return self.linear(self.op("Reshape", joined, self.sizes(1, length, width)), width, width)

    def encoder(self, x, length, width, heads, norm_first, mask=None):
        def feed_forward(y):
            return self.linear(self.gelu(self.linear(y, width, 4 * width)), 4 * width, width)
        if norm_first:
            x = self.op("Add", x, self.attention(self.norm(x, width), length, width, heads, mask))
            return self.op("Add", x, feed_forward(self.norm(x, width)))
        x = self.norm(self.op("Add", x, self.attention(x, length, width, heads, mask)), width)
        return self.norm(self.op("Add", x, feed_forward(x)), width)

    def classifier(self, x, width):
        return self.op("Gemm", x, self.weight(1000, width), self.weight(1000, terms=100), transB=1)


def image():
    return [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 224, 224])]


def tokens(length):
    return [helper.make_tensor_value_info("ids", TensorProto.INT64, [1, length])]


def write_resnet50(path):
    m = Model()
    x = m.op("MaxPool", m.conv("x", 3, 64, 7, 2, activation="Relu"), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    channels = 64
    for stage, (width, blocks) in enumerate([(64, 3), (128, 4), (256, 6), (512, 3)]):
        for block in range(blocks):
            stride = 2 if block == 0 and stage > 0 else 1
            y = m.conv(m.conv(x, channels, width, 1, activation="Relu"), width, width, 3, stride, activation="Relu")
            y = m.conv(y, width, 4 * width, 1)
            x = m.op("Relu", m.op("Add", y, m.conv(x, channels, 4 * width, 1, stride) if block == 0 else x))
            channels = 4 * width
    y = m.classifier(m.op("Flatten", m.op("GlobalAveragePool", x)), 2048)
    m.save(path, image(), y, [1, 1000])


def write_mobilenet(path):
    """Depthwise convolutions, squeeze and excitation, as in MobileNetV3."""
    m = Model()
    x, channels = m.conv("x", 3, 16, 3, 2, activation="HardSwish"), 16
    for wide, results, window, stride in [(16, 16, 3, 1), (64, 24, 3, 2), (72, 24, 3, 1), (72, 40, 5, 2), (120, 40, 5, 1), (240, 80, 3, 2),
                                          (200, 80, 3, 1), (480, 112, 3, 1), (672, 160, 5, 2), (960, 160, 5, 1)]:
        y = m.conv(m.conv(x, channels, wide, 1, activation="HardSwish"), wide, wide, window, stride, wide, activation="HardSwish")
        squeezed = m.conv(m.op("GlobalAveragePool", y), wide, wide // 4, 1, activation="Relu")
        y = m.conv(m.op("Mul", y, m.op("HardSigmoid", m.conv(squeezed, wide // 4, wide, 1), alpha=1 / 6)), wide, results, 1)
        x = m.op("Add", x, y) if channels == results and stride == 1 else y
        channels = results
    x = m.op("GlobalAveragePool", m.conv(x, 160, 960, 1, activation="HardSwish"))
    m.save(path, image(), m.classifier(m.op("Flatten", x), 960), [1, 1000])


def write_bert(path, length=128, width=768):
    m = Model()
    x = m.norm(m.op("Add", m.op("Gather", m.weight(30522, width), "ids"), m.weight(1, length, width)), width)
    for _ in range(12):
        x = m.encoder(x, length, width, 12, norm_first=False)
    m.save(path, tokens(length), x, [1, length, width])


def write_gpt2(path, length=128, width=768, words=50257):
    m = Model()
    embedding = m.weight(words, width)
    x = m.op("Add", m.op("Gather", embedding, "ids"), m.weight(1, length, width))
    mask = m.constant(np.triu(np.full((length, length), -1e9, np.float32), 1))
    for _ in range(12):
        x = m.encoder(x, length, width, 12, norm_first=True, mask=mask)
    y = m.op("MatMul", m.norm(x, width), m.op("Transpose", embedding, perm=[1, 0]))
    m.save(path, tokens(length), y, [1, length, words])


def write_vit(path, width=768, length=197):
    m = Model()
    x = m.op("Conv", "x", m.weight(width, 3, 16, 16, terms=768), m.weight(width, terms=100), kernel_shape=[16, 16], strides=[16, 16])
    x = m.op("Transpose", m.op("Reshape", x, m.sizes(1, width, length - 1)), perm=[0, 2, 1])
    x = m.op("Add", m.op("Concat", m.weight(1, 1, width), x, axis=1), m.weight(1, length, width))
    for _ in range(12):
        x = m.encoder(x, length, width, 12, norm_first=True)
    x = m.op("Gather", m.norm(x, width), m.constant(np.int64(0)), axis=1)
    m.save(path, image(), m.classifier(x, width), [1, 1000])


MODELS = {"bert": write_bert, "gpt2": write_gpt2, "mobilenet": write_mobilenet, "resnet50": write_resnet50, "vit": write_vit}
