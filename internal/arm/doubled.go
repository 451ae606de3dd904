package arm

import (
	"encoding/json"
	"strings"
)

// doubled returns a key that one object of a JSON text has twice, or "". Keys that differ in case
// only are the same to Azure and to encoding/json. The text must be valid JSON.
//
// Some readers take the first value, others the last. So an edit could change the one and leave the
// other.
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
	many map[string]bool // instead of few from fewKeys on; folded
}

// fewKeys is up to how many keys are compared one by one.
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

// fold makes keys equal that differ in case only.
func fold(key string) string { return strings.ToLower(strings.ToUpper(key)) }
