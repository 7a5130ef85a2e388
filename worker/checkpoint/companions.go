package checkpoint

import (
	"bytes"
	"encoding/json"
	"slices"
)

// companions reads the files beside the weights: tokenizer, chat template, stop ids and sampling defaults.
func (d *directory) companions(c *Checkpoint, cfg *config, weightsOnly bool) error {
	var err error
	if c.Tokenizer, err = d.read("tokenizer.json"); err != nil {
		return err
	}
	if c.Tokenizer == nil && !weightsOnly {
		return refuse("%s has no tokenizer.json; download it from where the weights came from", d.name)
	}
	generation, err := d.read("generation_config.json")
	if err != nil {
		return err
	}
	var stops []int32
	if c.Generation, stops, err = parseGeneration(generation, c.Shape.Vocab); err != nil {
		return err
	}
	tokenizerConfig, err := d.read("tokenizer_config.json")
	if err != nil {
		return err
	}
	t, err := parseTokenizerConfig(tokenizerConfig)
	if err != nil {
		return err
	}
	template, err := d.read("chat_template.jinja")
	if err != nil {
		return err
	}
	c.ChatTemplate, c.BOS, c.EOS = string(template), string(t.BOS), string(t.EOS)
	if template == nil {
		c.ChatTemplate = string(t.ChatTemplate)
	}
	stops = append(stops, cfg.stopIDs...)
	if c.EOS != "" && c.Tokenizer != nil {
		id, err := addedTokenID(c.Tokenizer, c.EOS, c.Shape.Vocab)
		if err != nil {
			return err
		}
		stops = append(stops, id)
	}
	slices.Sort(stops)
	c.StopIDs = slices.Compact(stops)
	return nil
}

// parseGeneration reads generation_config.json and its stop ids. Missing fields, and a missing file, have the defaults of
// transformers' GenerationConfig: greedy, temperature 1, top_k 50, top_p 1, no min_p.
func parseGeneration(data []byte, vocab int) (Generation, []int32, error) {
	const file = "generation_config.json"
	g := Generation{Temperature: 1, TopP: 1, TopK: 50}
	if data == nil {
		return g, nil, nil
	}
	var f struct {
		DoSample    *bool    `json:"do_sample"`
		Temperature *float32 `json:"temperature"`
		TopP        *float32 `json:"top_p"`
		TopK        *int     `json:"top_k"`
		MinP        *float32 `json:"min_p"`
		EOS         idList   `json:"eos_token_id"`
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return g, nil, jsonRefusal(file, err)
	}
	g.DoSample = or(f.DoSample, g.DoSample)
	g.Temperature, g.TopP = or(f.Temperature, g.Temperature), or(f.TopP, g.TopP)
	g.TopK, g.MinP = or(f.TopK, g.TopK), or(f.MinP, g.MinP)
	switch {
	case g.Temperature < 0:
		return g, nil, refuse("%s: temperature is %g, want at least 0", file, g.Temperature)
	case g.TopP <= 0 || g.TopP > 1:
		return g, nil, refuse("%s: top_p is %g, want above 0 and at most 1", file, g.TopP)
	case g.TopK < 0:
		return g, nil, refuse("%s: top_k is %d, want at least 0", file, g.TopK)
	case g.MinP < 0 || g.MinP > 1:
		return g, nil, refuse("%s: min_p is %g, want 0 to 1", file, g.MinP)
	}
	return g, f.EOS, checkIDs(file, f.EOS, vocab)
}

func or[T any](p *T, missing T) T {
	if p == nil {
		return missing
	}
	return *p
}

// tokenizerConfig is what we use of tokenizer_config.json.
type tokenizerConfig struct {
	BOS          tokenText    `json:"bos_token"`
	EOS          tokenText    `json:"eos_token"`
	ChatTemplate templateText `json:"chat_template"`
}

func parseTokenizerConfig(data []byte) (t tokenizerConfig, err error) {
	if data == nil {
		return t, nil
	}
	if err := json.Unmarshal(data, &t); err != nil {
		return t, jsonRefusal("tokenizer_config.json", err)
	}
	return t, nil
}

// tokenText is a token given as its text, as an object with content, or null.
type tokenText string

// UnmarshalJSON implements json.Unmarshaler.
func (t *tokenText) UnmarshalJSON(data []byte) error {
	var object struct {
		Content *string `json:"content"`
	}
	var text *string
	if json.Unmarshal(data, &text) != nil {
		if err := json.Unmarshal(data, &object); err != nil || object.Content == nil {
			return formError("a token is neither a string, null nor an object with content")
		}
		text = object.Content
	}
	*t = tokenText(or(text, ""))
	return nil
}

// templateText is a chat template, or a list of named ones of which "default" is used.
type templateText string

// UnmarshalJSON implements json.Unmarshaler.
func (t *templateText) UnmarshalJSON(data []byte) error {
	var text *string
	if json.Unmarshal(data, &text) == nil {
		*t = templateText(or(text, ""))
		return nil
	}
	var named []struct{ Name, Template string }
	if err := json.Unmarshal(data, &named); err != nil {
		return formError("chat_template is neither a string nor a list of named templates")
	}
	for _, n := range named {
		if n.Name == "default" {
			*t = templateText(n.Template)
		}
	}
	return nil
}

// addedTokenID finds a token's id among tokenizer.json's added_tokens, which come early in the file: what follows
// them is not read.
func addedTokenID(tokenizer []byte, text string, vocab int) (int32, error) {
	const file = "tokenizer.json"
	noToken := refuse("tokenizer_config.json has the eos_token %q, which is no added token of %s", text, file)
	dec := json.NewDecoder(bytes.NewReader(tokenizer))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return 0, refuse("%s is no JSON object", file)
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return 0, jsonRefusal(file, err)
		}
		if key != "added_tokens" {
			var skipped json.RawMessage
			if err := dec.Decode(&skipped); err != nil {
				return 0, jsonRefusal(file, err)
			}
			continue
		}
		var added []struct {
			ID      int32  `json:"id"`
			Content string `json:"content"`
		}
		if err := dec.Decode(&added); err != nil {
			return 0, jsonRefusal(file, err)
		}
		for _, a := range added {
			if a.Content == text {
				if a.ID < 0 || int(a.ID) >= vocab {
					return 0, refuse("%s: added token %q has the id %d, want 0 to %d", file, text, a.ID, vocab-1)
				}
				return a.ID, nil
			}
		}
		return 0, noToken
	}
	if _, err := dec.Token(); err != nil {
		return 0, refuse("%s is broken JSON: it ends too early; download it again", file)
	}
	return 0, noToken
}
