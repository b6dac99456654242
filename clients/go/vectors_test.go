package client

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

type vectors struct {
	Sets []struct {
		Name     string
		Manifest json.RawMessage
		Cases    []struct {
			Request map[string]json.RawMessage
			Answer  map[string]any
		}
	}
}

func TestAllVectorsAreAnswered(t *testing.T) {
	files, _ := filepath.Glob("../vectors/*.json")
	if len(files) == 0 {
		t.Fatal("there are no vectors")
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var all vectors
		if err := json.Unmarshal(data, &all); err != nil {
			t.Fatal(err)
		}
		for _, set := range all.Sets {
			session := &conformer{}
			for _, one := range set.Cases {
				one.Request["manifest"] = set.Manifest
				line, _ := json.Marshal(one.Request)
				answer, err := session.answer(line)
				if _, refused := one.Answer["refused"]; refused {
					if err == nil {
						t.Errorf("%s, %s: not refused, but %v", file, set.Name, answer)
					}
					continue
				}
				text, _ := json.Marshal(answer)
				var found map[string]any
				json.Unmarshal(text, &found)
				if err != nil || !reflect.DeepEqual(found, one.Answer) {
					t.Errorf("%s, %s: %v, %s instead of %v", file, set.Name, err, text, one.Answer)
				}
			}
		}
	}
}
