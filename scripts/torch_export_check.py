#!/usr/bin/env python3
"""Checks that tcc takes what torch.export writes: exports models of torchvision, timm and transformers, undecomposed, and compares results on the CPU.

    scripts/torch_export_check.py [--tcc PATH] [--only WORD,...] [--check] [--keep FOLDER]

Weights and inputs are random. The reference is the same model in f64; a row is right when tcc's error is within twice that of eager mode, both as
||result - reference|| / ||reference|| of the first result. With --check, models are only imported (`tcc check`), which finds operators, arguments and
dtypes that are missing in little time. With --keep, archives stay in that folder, and those that are there are not made again. Needs torch,
torchvision, timm, transformers. The exit code is 1 when a row is wrong.
"""
import argparse
import copy
import os
import subprocess
import sys
import tempfile
import time
import warnings

import numpy
import torch

from torch_check import First, error, forward, without_zeros

TIMM = """
test_byobnet test_convnext test_convnext2 test_convnext3 test_efficientnet test_efficientnet_evos test_efficientnet_gn test_efficientnet_ln
test_mambaout test_nfnet test_resnet test_vit test_vit2 test_vit3 test_vit4
beit_base_patch16_224:depth=2,embed_dim=96,num_heads=3 botnet26t_256 caformer_s18 cait_xxs24_224 coat_lite_tiny coatnet_pico_rw_224 convit_tiny
crossvit_tiny_240 cs3darknet_focus_s davit_tiny:depths=1+1+1+1 deit_tiny_distilled_patch16_224 dla46_c
dpn48b eca_resnext26ts edgenext_xx_small efficientformer_l1 efficientformerv2_s0 efficientvit_b0 efficientvit_m0
ese_vovnet19b_slim_dw eva02_tiny_patch14_224:depth=2 fasternet_t0 fastvit_t8 focalnet_tiny_srf gcvit_xxtiny
ghostnetv2_100 gmixer_12_224 gmlp_s16_224 halonet26t hardcorenas_a hgnetv2_b0 hiera_tiny_224 hrnet_w18_small
inception_next_atto inception_v3 lambda_resnet26t lcnet_035 lcnetv2_small legacy_seresnet18 levit_128s lowformer_b0 maxvit_rmlp_pico_rw_256
mixer_s32_224 mobilenetv4_conv_small_035 mobilenetv4_hybrid_medium mobileone_s0 mobilevit_xxs mobilevitv2_050 mvitv2_tiny nest_tiny nextvit_small
nf_regnet_b0 pit_ti_224 poolformer_s12 pvt_v2_b0 rdnet_tiny repghostnet_050 repvgg_a0 repvit_m0_9 res2net50_14w_8s resmlp_12_224 resnest14d
resnetv2_18 rexnet_100 selecsls42b sequencer2d_s shvit_s1 skresnet18 starnet_s1 swiftformer_xs swin_tiny_patch4_window7_224:depths=2+1+1+1
swinv2_cr_tiny_224:depths=2+1+1+1 swinv2_tiny_window8_256:depths=2+1+1+1 tiny_vit_5m_224 tinynet_e tnt_s_patch16_224:depth=2
twins_svt_small:depths=1+1+1+1 visformer_tiny vitamin_small_224 vit_base_r26_s32_224:depth=2 volo_d1_224 xcit_nano_12_p16_224
""".split()
VISION = """
alexnet:64 convnext_tiny:64 densenet121:64 efficientnet_b0:64 efficientnet_v2_s:64 googlenet:96 inception_v3:96 maxvit_t:224 mnasnet0_5:64
mobilenet_v2:64 mobilenet_v3_small:64 regnet_x_400mf:64 regnet_y_400mf:64 resnet18:64 resnext50_32x4d:64 shufflenet_v2_x0_5:64 squeezenet1_1:64
swin_t:64 swin_v2_t:64 vgg11_bn:64 wide_resnet50_2:64
""".split()


def number(text):
    return tuple(int(x) for x in text.split("+")) if "+" in text else int(text)


def timm_model(spec):
    import timm
    name, _, settings = spec.partition(":")
    settings = {key: number(value) for key, value in (s.split("=") for s in settings.split(",") if s)}
    model = timm.create_model(name, num_classes=10, **settings)
    return model, (torch.randn(1, *model.default_cfg["input_size"]),)


def vision_model(spec):
    import torchvision
    name, edge = spec.split(":")
    options = {"googlenet": {"aux_logits": False, "init_weights": False}, "inception_v3": {"aux_logits": False, "init_weights": False}}
    return torchvision.models.get_model(name, num_classes=10, **options.get(name, {})), (torch.randn(1, 3, int(edge), int(edge)),)


class Chosen(torch.nn.Module):
    """One entry of a model's dictionary of results, and its inputs by name."""

    def __init__(self, model, key, names=(), **fixed):
        super().__init__()
        self.model, self.key, self.names, self.fixed = model, key, names, fixed

    def forward(self, *inputs):
        positional, named = (inputs, {}) if not self.names else ((), dict(zip(self.names, inputs)))
        return self.model(*positional, **named, **self.fixed)[self.key]


def more_vision():
    import torchvision
    from torchvision.models import detection, segmentation, video, vision_transformer
    picture = (torch.randn(1, 3, 64, 64),)
    none = {"weights": None, "weights_backbone": None}
    return {
        "vision_transformer": lambda: (vision_transformer.VisionTransformer(32, 8, 2, 4, 64, 128), (torch.randn(1, 3, 32, 32),)),
        "fcn_resnet50": lambda: (Chosen(segmentation.fcn_resnet50(**none), "out"), picture),
        "deeplabv3_mobilenet_v3_large": lambda: (Chosen(segmentation.deeplabv3_mobilenet_v3_large(**none), "out"), picture),
        "lraspp_mobilenet_v3_large": lambda: (Chosen(segmentation.lraspp_mobilenet_v3_large(**none), "out"), picture),
        "resnet_fpn": lambda: (Chosen(detection.backbone_utils.resnet_fpn_backbone(backbone_name="resnet18", weights=None), "0"), picture),
        "ssdlite_backbone": lambda: (Chosen(detection.ssdlite320_mobilenet_v3_large(**none).backbone, "0"), (torch.randn(1, 3, 128, 128),)),
        "r3d_18": lambda: (video.r3d_18(), (torch.randn(1, 3, 4, 32, 32),)),
        "r2plus1d_18": lambda: (video.r2plus1d_18(), (torch.randn(1, 3, 4, 32, 32),)),
        "raft_small": lambda: (Chosen(torchvision.models.optical_flow.raft_small(), 0, num_flow_updates=2), (torch.randn(1, 3, 128, 128),) * 2),
    }


WIDE = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 200}
GPT = {"n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 200, "bos_token_id": 0, "eos_token_id": 0}
T5 = {"num_layers": 2, "num_decoder_layers": 2, "d_model": 64, "num_heads": 4, "d_ff": 128, "d_kv": 16, "vocab_size": 200}
SEQ2SEQ = {"d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
           "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "vocab_size": 200}
GROUPED = {**WIDE, "num_key_value_heads": 2}
PATCHES = {key: value for key, value in WIDE.items() if key != "vocab_size"} | {"image_size": 32, "patch_size": 8}
TEXT = {  # model, configuration, its settings
    "albert": ("AlbertModel", "AlbertConfig", {**WIDE, "embedding_size": 32}),
    "bert": ("BertModel", "BertConfig", WIDE), "roberta": ("RobertaModel", "RobertaConfig", WIDE),
    "bert masked": ("BertForMaskedLM", "BertConfig", WIDE), "bert eager": ("BertModel", "BertConfig", {**WIDE, "attn_implementation": "eager"}),
    "camembert": ("CamembertModel", "CamembertConfig", WIDE), "electra": ("ElectraModel", "ElectraConfig", {**WIDE, "embedding_size": 32}),
    "distilbert": ("DistilBertModel", "DistilBertConfig", {"n_layers": 2, "dim": 64, "n_heads": 4, "hidden_dim": 128, "vocab_size": 200}),
    "deberta": ("DebertaModel", "DebertaConfig", {**WIDE, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]}),
    "deberta v2": ("DebertaV2Model", "DebertaV2Config", {**WIDE, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]}),
    "mpnet": ("MPNetModel", "MPNetConfig", WIDE), "funnel": ("FunnelModel", "FunnelConfig", {"block_sizes": [1, 1], "d_model": 64, "n_head": 4,
                                                                                          "d_head": 16, "d_inner": 128, "vocab_size": 200}),
    "modernbert": ("ModernBertModel", "ModernBertConfig", {**WIDE, "pad_token_id": 0}), "roformer": ("RoFormerModel", "RoFormerConfig", WIDE),
    "squeezebert": ("SqueezeBertModel", "SqueezeBertConfig", {**WIDE, "embedding_size": 64}), "fnet": ("FNetModel", "FNetConfig", WIDE),
    "convbert": ("ConvBertModel", "ConvBertConfig", WIDE), "nystromformer": ("NystromformerModel", "NystromformerConfig", WIDE),
    "xlnet": ("XLNetModel", "XLNetConfig", {"d_model": 64, "n_layer": 2, "n_head": 4, "d_inner": 128, "vocab_size": 200}),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", GPT), "gpt neo": ("GPTNeoModel", "GPTNeoConfig", {"hidden_size": 64, "num_layers": 2, "num_heads": 4,
                                                            "attention_types": [[["global", "local"], 1]], "vocab_size": 200}),
    "gpt neox": ("GPTNeoXModel", "GPTNeoXConfig", WIDE), "gptj": ("GPTJModel", "GPTJConfig", {**GPT, "rotary_dim": 8}),
    "gpt bigcode": ("GPTBigCodeModel", "GPTBigCodeConfig", GPT), "codegen": ("CodeGenModel", "CodeGenConfig", {**GPT, "rotary_dim": 8}),
    "llama": ("LlamaForCausalLM", "LlamaConfig", GROUPED), "mistral": ("MistralForCausalLM", "MistralConfig", {**GROUPED, "sliding_window": 8}),
    "mixtral": ("MixtralModel", "MixtralConfig", {**GROUPED, "num_local_experts": 4}), "qwen2": ("Qwen2Model", "Qwen2Config", GROUPED),
    "qwen3": ("Qwen3Model", "Qwen3Config", {**GROUPED, "head_dim": 16}), "qwen2 moe": ("Qwen2MoeModel", "Qwen2MoeConfig", {
        **GROUPED, "num_experts": 4, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32}),
    "gemma": ("GemmaModel", "GemmaConfig", {**GROUPED, "head_dim": 16}), "gemma2": ("Gemma2Model", "Gemma2Config", {**GROUPED, "head_dim": 16}),
    "gemma3": ("Gemma3TextModel", "Gemma3TextConfig", {**GROUPED, "head_dim": 16, "sliding_window": 8}),
    "phi": ("PhiModel", "PhiConfig", WIDE), "phi3": ("Phi3Model", "Phi3Config", {**GROUPED, "pad_token_id": 0}),
    "falcon": ("FalconModel", "FalconConfig", {**WIDE, "alibi": False}), "falcon alibi": ("FalconModel", "FalconConfig", {**WIDE, "alibi": True}),
    "bloom": ("BloomModel", "BloomConfig", {"hidden_size": 64, "n_layer": 2, "n_head": 4, "vocab_size": 200}),
    "mpt": ("MptModel", "MptConfig", {"d_model": 64, "n_layers": 2, "n_heads": 4, "vocab_size": 200}),
    "opt": ("OPTModel", "OPTConfig", {**WIDE, "ffn_dim": 128, "word_embed_proj_dim": 64}), "olmo": ("OlmoModel", "OlmoConfig", GROUPED),
    "stablelm": ("StableLmModel", "StableLmConfig", GROUPED), "starcoder2": ("Starcoder2Model", "Starcoder2Config", GROUPED),
    "cohere": ("CohereModel", "CohereConfig", {**GROUPED, "bos_token_id": 0, "eos_token_id": 0}), "granite": ("GraniteModel", "GraniteConfig", GROUPED),
    "mamba": ("MambaModel", "MambaConfig", {"hidden_size": 64, "num_hidden_layers": 2, "state_size": 8, "vocab_size": 200}),
    "mamba2": ("Mamba2Model", "Mamba2Config", {"hidden_size": 64, "num_hidden_layers": 2, "state_size": 8, "num_heads": 8, "head_dim": 16,
                                            "n_groups": 1, "vocab_size": 200, "chunk_size": 8}),
    "rwkv": ("RwkvModel", "RwkvConfig", {"hidden_size": 64, "num_hidden_layers": 2, "attention_hidden_size": 64, "vocab_size": 200}),
    "t5 encoder": ("T5EncoderModel", "T5Config", T5), "umt5 encoder": ("UMT5EncoderModel", "UMT5Config", T5),
    "clip text": ("CLIPTextModel", "CLIPTextConfig", WIDE),
}
PAIRS = {"t5": ("T5Model", "T5Config", T5), "bart": ("BartModel", "BartConfig", SEQ2SEQ), "marian": ("MarianModel", "MarianConfig", {
    **SEQ2SEQ, "pad_token_id": 0, "decoder_start_token_id": 0}), "pegasus": ("PegasusModel", "PegasusConfig", SEQ2SEQ),
    "m2m 100": ("M2M100Model", "M2M100Config", SEQ2SEQ), "mbart": ("MBartModel", "MBartConfig", SEQ2SEQ),
    "blenderbot": ("BlenderbotModel", "BlenderbotConfig", SEQ2SEQ)}
PICTURES = {
    "vit": ("ViTModel", "ViTConfig", PATCHES), "deit": ("DeiTModel", "DeiTConfig", PATCHES), "beit": ("BeitModel", "BeitConfig", PATCHES),
    "clip vision": ("CLIPVisionModel", "CLIPVisionConfig", PATCHES), "siglip vision": ("SiglipVisionModel", "SiglipVisionConfig", PATCHES),
    "dinov2": ("Dinov2Model", "Dinov2Config", PATCHES), "swin": ("SwinModel", "SwinConfig", {
        "image_size": 32, "patch_size": 2, "embed_dim": 24, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4}),
    "segformer": ("SegformerModel", "SegformerConfig", {"depths": [1, 1, 1, 1], "hidden_sizes": [16, 32, 48, 64]}),
    "resnet hf": ("ResNetModel", "ResNetConfig", {"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1]}),
    "convnextv2": ("ConvNextV2Model", "ConvNextV2Config", {"hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 1, 1]}),
    "poolformer hf": ("PoolFormerModel", "PoolFormerConfig", {"depths": [1, 1, 1, 1], "hidden_sizes": [16, 32, 48, 64]}),
    "dpt": ("DPTModel", "DPTConfig", PATCHES), "yolos": ("YolosModel", "YolosConfig", {**PATCHES, "image_size": [32, 32], "num_detection_tokens": 4}),
}


def transformer(model, config, settings):
    import transformers
    settings = dict(settings)
    attention = settings.pop("attn_implementation", "sdpa")
    made = getattr(transformers, config)(**settings)
    made.use_cache = False
    kind = getattr(transformers, model)
    try:
        return kind._from_config(made, attn_implementation=attention)
    except ValueError:  # it has no such form
        return kind._from_config(made, attn_implementation="eager")


def tokens(length=12):
    return torch.randint(5, 200, (1, length))


def audio():
    whisper = ("WhisperModel", "WhisperConfig", {**SEQ2SEQ, "num_mel_bins": 16, "max_source_positions": 20, "pad_token_id": 0, "bos_token_id": 0,
                                               "eos_token_id": 0, "decoder_start_token_id": 0, "begin_suppress_tokens": None})
    wave = {key: value for key, value in WIDE.items() if key != "vocab_size"} | {
        "conv_dim": [16, 16], "conv_stride": [5, 2], "conv_kernel": [10, 3], "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2}
    return {
        "whisper encoder": lambda: (First(transformer(*whisper).encoder), (torch.randn(1, 16, 40),)),
        "whisper decoder": lambda: (Chosen(transformer(*whisper).decoder, 0, ("input_ids", "encoder_hidden_states")), (tokens(), torch.randn(1, 20, 64))),
        "wav2vec2": lambda: (First(transformer("Wav2Vec2Model", "Wav2Vec2Config", wave)), (torch.randn(1, 400),)),
        "hubert": lambda: (First(transformer("HubertModel", "HubertConfig", wave)), (torch.randn(1, 400),)),
        "clip": lambda: (Chosen(transformer("CLIPModel", "CLIPConfig", {
            "text_config": WIDE | {"projection_dim": 32}, "vision_config": PATCHES, "projection_dim": 32}), "logits_per_image",
            ("input_ids", "pixel_values")), (tokens(), torch.randn(2, 3, 32, 32))),
        "bert with mask": lambda: (Chosen(transformer(*TEXT["bert"]), 0, ("input_ids", "attention_mask")), (tokens(), torch.ones(1, 12, dtype=torch.int64))),
        "gpt2 with mask": lambda: (Chosen(transformer(*TEXT["gpt2"]), 0, ("input_ids", "attention_mask")), (tokens(), torch.ones(1, 12, dtype=torch.int64))),
        "llama with mask": lambda: (Chosen(transformer(*TEXT["llama"]), 0, ("input_ids", "attention_mask")),
                                    (tokens(), torch.ones(1, 12, dtype=torch.int64))),
    }


def table():
    models = {"vision " + spec.split(":")[0]: lambda spec=spec: vision_model(spec) for spec in VISION}
    models.update({"vision " + name: make for name, make in more_vision().items()})
    models.update({"timm " + spec.split(":")[0]: lambda spec=spec: timm_model(spec) for spec in TIMM})
    models.update({"hf " + name: lambda row=row: (First(transformer(*row)), (tokens(),)) for name, row in TEXT.items()})
    models.update({"hf " + name: lambda row=row: (Chosen(transformer(*row), 0, ("input_ids", "decoder_input_ids")), (tokens(), tokens(8)))
                   for name, row in PAIRS.items()})
    models.update({"hf " + name: lambda row=row: (First(transformer(*row)), (torch.randn(1, 3, 32, 32),)) for name, row in PICTURES.items()})
    models.update({"hf " + name: make for name, make in audio().items()})
    return models


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        lines = [line for line in done.stdout.splitlines() if "error" in line or "not supported" in line]
        raise RuntimeError(f"exit {done.returncode}: " + " / ".join(lines or done.stdout.splitlines()[-3:])[:600])


def check(name, make, options, folder):
    base = os.path.join(folder, name.replace(" ", "_"))
    torch.manual_seed(7)
    if not os.path.exists(base + ".npz") or not os.path.exists(base + ".pt2"):
        model, inputs = make()
        model = without_zeros(model).eval()
        program = torch.export.export(model, inputs)
        eager = forward(model, inputs)
        try:
            exact = forward(copy.deepcopy(model).double(), tuple(x.double() if x.is_floating_point() else x for x in inputs))
        except RuntimeError:  # it makes f32 tensors within
            exact = [x.double() for x in eager]
        allowed = 2 * max(error(eager, [x.double() for x in exact]), 1e-6)
        torch.export.save(program, base + ".pt2")
        users = [s.arg.name for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT" and hasattr(s.arg, "name")]
        numpy.savez(base + ".npz", **{"in." + user: x.numpy() for user, x in zip(users, inputs)}, result=exact[0].numpy(), allowed=allowed)
    try:
        if options.check:
            run([options.tcc, "check", base + ".pt2"])
            return "ok"
        known = numpy.load(base + ".npz")
        numpy.savez(base + ".inputs.npz", **{key[3:]: known[key] for key in known.files if key.startswith("in.")})
        begin = time.perf_counter()
        run([options.tcc, base + ".pt2", "--target=cpu", "-O1", "-q", "-o", base + ".so"])
        took = time.perf_counter() - begin
        run([options.tcc, "run", base + ".so", "--device=cpu", "--input", base + ".inputs.npz", "--save", base + ".results"])
        files = sorted(os.listdir(base + ".results"))
        results = [numpy.load(os.path.join(base + ".results", file)) for file in files]
        found = next((r for r in results if r.shape == known["result"].shape), results[0])
        difference = error([torch.from_numpy(found.copy())], [torch.from_numpy(known["result"]).double()])
        if not difference <= known["allowed"]:
            raise RuntimeError(f"the error is {difference:.1e}, expected {float(known['allowed']):.1e} at most")
        return f"ok, error {difference:.1e}, compiled in {took:.1f} s"
    finally:
        subprocess.run(["rm", "-rf", base + ".so", base + ".results", base + ".inputs.npz"], check=False)
        if options.keep is None:
            subprocess.run(["rm", "-f", base + ".pt2", base + ".npz"], check=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tcc", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "../build/dev/bin/tcc"))
    parser.add_argument("--only", default="", help="only models whose name contains one of these words")
    parser.add_argument("--check", action="store_true", help="only imports them")
    parser.add_argument("--keep", help="folder for the archives")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    num_right = num_models = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or temporary
        os.makedirs(folder, exist_ok=True)
        for name, make in table().items():
            if not any(word in name for word in options.only.split(",")):
                continue
            num_models += 1
            try:
                result = check(name, make, options, folder)
                num_right += 1
            except Exception as problem:  # pylint: disable=broad-except
                result = f"WRONG {type(problem).__name__}: " + " ".join(str(problem).split())[:700]
            print(f"{name:32} {result}", flush=True)
    print(f"torch {torch.__version__}: {num_right} of {num_models} right")
    sys.exit(0 if num_right == num_models else 1)


if __name__ == "__main__":
    main()
