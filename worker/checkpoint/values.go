package checkpoint

import (
	"encoding/json"
	"errors"
	"math"
)

// values checks numbers of config.json and keeps the first failure.
type values struct{ err error }

func (v *values) fail(format string, args ...any) {
	if v.err == nil {
		v.err = refuse("config.json: "+format, args...)
	}
}

// count returns a number in [1, most].
func (v *values) count(field string, n *int, most int) int {
	if n == nil {
		v.fail("%s is missing", field)
		return 0
	}
	if *n < 1 || *n > most {
		v.fail("%s is %d, want 1 to %d", field, *n, most)
		return 0
	}
	return *n
}

// between returns a finite number in [low, high].
func (v *values) between(field string, f *float64, low, high float64) float64 {
	if f == nil {
		v.fail("%s is missing", field)
		return 0
	}
	if math.IsNaN(*f) || *f < low || *f > high {
		v.fail("%s is %g, want %g to %g", field, *f, low, high)
		return 0
	}
	return *f
}

func (v *values) divides(partName string, part int, wholeName string, whole int) {
	if v.err == nil && whole%part != 0 {
		v.fail("%s is %d, which does not divide %s %d", partName, part, wholeName, whole)
	}
}

// idList is a token id, a list of them, or null.
type idList []int32

// UnmarshalJSON implements json.Unmarshaler.
func (l *idList) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	var one int32
	if json.Unmarshal(data, &one) == nil {
		*l = idList{one}
		return nil
	}
	var many []int32
	if err := json.Unmarshal(data, &many); err != nil {
		return formError("eos_token_id is neither a token id nor a list of them")
	}
	*l = many
	return nil
}

// checkIDs refuses token ids outside the vocabulary.
func checkIDs(file string, ids []int32, vocab int) error {
	for _, id := range ids {
		if id < 0 || int(id) >= vocab {
			return refuse("%s: eos_token_id is %d, want 0 to %d", file, id, vocab-1)
		}
	}
	return nil
}

// given is false for a JSON value that is missing or null.
func given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// formError is what our own JSON types say of a value of the wrong form.
type formError string

func (e formError) Error() string { return string(e) }

// jsonRefusal turns an error of encoding/json into our sentence.
func jsonRefusal(file string, err error) error {
	var form formError
	if errors.As(err, &form) {
		return refuse("%s: %v", file, form)
	}
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field != "" {
		return refuse("%s: %s is a JSON %s, want %s", file, wrong.Field, wrong.Value, wrong.Type)
	}
	return refuse("%s is broken JSON: %v", file, err)
}
