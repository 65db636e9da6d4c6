package smi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"
)

// Value is what a field shows: one text, or texts that follow each other from
// the moment at which the scenario was written:
//
//	"95"
//	{"steps": [{"from": 0, "value": "95"}, {"from": 40, "value": "0"}], "every": 60}
type Value struct {
	steps []step
	every float64
}

// step is a text and the second from which on it is shown.
type step struct {
	From  float64 `json:"from"`
	Value string  `json:"value"`
}

// at is the text after this time. Before the first step the field shows what
// it shows without a scenario, and so does the second result.
func (v Value) at(elapsed time.Duration) (string, bool) {
	seconds := elapsed.Seconds()
	if v.every > 0 {
		seconds = math.Mod(seconds, v.every)
	}
	text, found := "", false
	for _, each := range v.steps {
		if each.From <= seconds {
			text, found = each.Value, true
		}
	}
	return text, found
}

// UnmarshalJSON reads either form and refuses steps out of order.
func (v *Value) UnmarshalJSON(content []byte) error {
	var text string
	if json.Unmarshal(content, &text) == nil {
		*v = Value{steps: []step{{From: math.Inf(-1), Value: text}}}
		return nil
	}
	var series struct {
		Steps []step  `json:"steps"`
		Every float64 `json:"every"`
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&series); err != nil {
		return fmt.Errorf(`a value is a text or {"steps": [{"from": seconds, "value": text}], "every": seconds}: %w`, err)
	}
	if len(series.Steps) == 0 {
		return errors.New("a value over time needs steps")
	}
	for index, each := range series.Steps {
		if each.From < 0 || index > 0 && each.From <= series.Steps[index-1].From {
			return fmt.Errorf("step %d is from second %g: steps start at 0 or later and are in order", index+1, each.From)
		}
	}
	if last := series.Steps[len(series.Steps)-1].From; series.Every < 0 || series.Every > 0 && last >= series.Every {
		return fmt.Errorf("every %g s would never show the step from second %g", series.Every, last)
	}
	*v = Value{steps: series.Steps, every: series.Every}
	return nil
}
