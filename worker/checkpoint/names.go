package checkpoint

import "strings"

// tensorKind says what to do with a tensor or module by its name alone.
type tensorKind int

const (
	textTensor    tensorKind = iota + 1
	skippedTensor            // vision tower or multi-token prediction head
	unknownTensor
)

// textPrefixes are what Hugging Face, MLX and text-only exports put before the text model's names, longest first.
var textPrefixes = []string{"language_model.model.", "model.language_model.", "language_model.", "model.", ""}

// skippedPrefixes are the parts that the text model doesn't need, after any of the text prefixes.
var skippedPrefixes = []string{"vision_tower.", "visual.", "mtp."}

// textRoots begin the names inside the text model.
var textRoots = []string{"embed_tokens", "layers", "norm", "lm_head"}

// canonical strips the prefix of a tensor or module name: "language_model.model.layers.0.mlp.gate" and
// "model.language_model.layers.0.mlp.gate" both become "layers.0.mlp.gate".
func canonical(name string) (string, tensorKind) {
	rest := name
	for _, p := range textPrefixes {
		if r, ok := strings.CutPrefix(name, p); ok {
			rest = r
			break
		}
	}
	for _, p := range skippedPrefixes {
		if strings.HasPrefix(rest, p) {
			return "", skippedTensor
		}
	}
	root, _, _ := strings.Cut(rest, ".")
	for _, r := range textRoots {
		if root == r {
			return rest, textTensor
		}
	}
	return "", unknownTensor
}
