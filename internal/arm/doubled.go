package arm

import (
	"encoding/json"
	"strings"
)

// doubled returns a key that an object of a JSON text has twice, or "". Azure and encoding/json
// treat keys that differ only in case as the same. The text must be valid JSON.
//
// Some readers take the first value, others the last. So an edit could change one value and leave
// the other.
func doubled(raw []byte) string {
	var open []*keys // for each open object, nil for a list
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '{':
			open = append(open, &keys{})
		case '[':
			open = append(open, nil)
		case '}', ']':
			open = open[:len(open)-1]
		case '"':
			start := i
			for i++; raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
			next := i + 1
			for next < len(raw) && strings.IndexByte(" \t\r\n", raw[next]) >= 0 {
				next++
			}
			if next < len(raw) && raw[next] == ':' {
				key := string(raw[start+1 : i])
				if strings.Contains(key, `\`) {
					_ = json.Unmarshal(raw[start:i+1], &key) // it is valid
				}
				if !open[len(open)-1].add(key) {
					return key
				}
			}
		}
	}
	return ""
}

// keys are the keys of one object.
type keys struct {
	few  []string
	many map[string]bool // replaces few from fewKeys keys on; the keys are folded
}

// fewKeys is the number of keys up to which add compares them one by one.
const fewKeys = 16

// add adds a key, and reports whether it is new.
func (k *keys) add(key string) bool {
	if k.many == nil {
		for _, other := range k.few {
			if strings.EqualFold(other, key) {
				return false
			}
		}
		if k.few = append(k.few, key); len(k.few) <= fewKeys {
			return true
		}
		k.many = map[string]bool{}
		for _, other := range k.few {
			k.many[fold(other)] = true
		}
		return true
	}
	if k.many[fold(key)] {
		return false
	}
	k.many[fold(key)] = true
	return true
}

// fold maps keys that differ only in case to the same text.
func fold(key string) string { return strings.ToLower(strings.ToUpper(key)) }
