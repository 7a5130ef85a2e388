package tokenizer

import (
	"fmt"
	"strings"
)

// source is what Parse needs of a tokenizer.json, as the file has it.
type source struct {
	added         []addedEntry
	normalizer    *component
	preTokenizer  *component
	postProcessor *component
	decoder       *component
	model         modelEntry
}

// component is a normalizer, pre-tokenizer, post-processor or decoder; each type uses some of the fields.
type component struct {
	Type          string      `json:"type"`
	PreTokenizers []component `json:"pretokenizers"`
	Pattern       struct {
		Regex *string
	} `json:"pattern"`
	Behavior       string `json:"behavior"`
	Invert         bool   `json:"invert"`
	AddPrefixSpace bool   `json:"add_prefix_space"`
	UseRegex       *bool  `json:"use_regex"` // Hugging Face takes true if it is absent
}

// addedEntry is one of added_tokens.
type addedEntry struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

// modelEntry is the BPE model. Its strings are spelled in the byte-level alphabet.
type modelEntry struct {
	kind                   string
	dropout                *float64
	subwordPrefix, wordEnd *string
	ignoreMerges           bool
	vocab                  map[string]int32
	merges                 [][2]string
}

// read reads a tokenizer.json without judging what it says.
func read(text string) (*source, error) {
	s := &source{}
	r := &jsonReader{text: text}
	err := r.object(func(key string) error {
		switch key {
		case "added_tokens":
			return r.decode(&s.added)
		case "normalizer":
			return r.decode(&s.normalizer)
		case "pre_tokenizer":
			return r.decode(&s.preTokenizer)
		case "post_processor":
			return r.decode(&s.postProcessor)
		case "decoder":
			return r.decode(&s.decoder)
		case "model":
			return s.model.read(r)
		}
		_, err := r.raw()
		return err
	})
	if err == nil && r.next() != 0 {
		err = r.failf("text after the object")
	}
	return s, err
}

func (m *modelEntry) read(r *jsonReader) error {
	return r.object(func(key string) error {
		switch key {
		case "type":
			return r.decode(&m.kind)
		case "dropout":
			return r.decode(&m.dropout)
		case "continuing_subword_prefix":
			return r.decode(&m.subwordPrefix)
		case "end_of_word_suffix":
			return r.decode(&m.wordEnd)
		case "ignore_merges":
			return r.decode(&m.ignoreMerges)
		case "vocab":
			return m.readVocab(r)
		case "merges":
			return m.readMerges(r)
		}
		_, err := r.raw()
		return err
	})
}

func (m *modelEntry) readVocab(r *jsonReader) error {
	if m.vocab != nil {
		return r.failf("a second vocabulary")
	}
	// The real file has one entry in about 80 bytes: the map need not grow step by step.
	m.vocab = make(map[string]int32, len(r.text)/80)
	return r.object(func(token string) error {
		id, err := r.int32()
		if err != nil {
			return err
		}
		if _, twice := m.vocab[token]; twice {
			return fmt.Errorf("token %q is there twice", token)
		}
		m.vocab[token] = id
		return nil
	})
}

// readMerges reads pairs ["a","b"], or "a b" as older files have them.
func (m *modelEntry) readMerges(r *jsonReader) error {
	if m.merges != nil {
		return r.failf("a second list of merges")
	}
	m.merges = make([][2]string, 0, len(m.vocab))
	return r.array(func() error {
		var pair [2]string
		if r.next() == '[' {
			n := 0
			err := r.array(func() (err error) {
				if n == len(pair) {
					return r.failf("merge of more than two tokens")
				}
				pair[n], err = r.str()
				n++
				return err
			})
			if err != nil {
				return err
			}
		} else {
			both, err := r.str()
			if err != nil {
				return err
			}
			pair[0], pair[1], _ = strings.Cut(both, " ")
		}
		m.merges = append(m.merges, pair)
		return nil
	})
}
