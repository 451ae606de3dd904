package yamltree

import (
	"fmt"
	"strings"
	"testing"
)

// show writes a value like JSON, with the line of each scalar.
func show(v *Value) string {
	switch {
	case v == nil:
		return "missing"
	case v.Kind == Null:
		return "null"
	case v.Kind == Scalar:
		return fmt.Sprintf("%s@%d", v.Text, v.Line)
	case v.Kind == Unknown:
		return "?"
	}
	var parts []string
	for _, item := range v.Items {
		parts = append(parts, show(item))
	}
	for _, m := range v.Members {
		parts = append(parts, m.Key+":"+show(m.Value))
	}
	if v.Kind == List {
		return "[" + strings.Join(parts, " ") + "]"
	}
	return "{" + strings.Join(parts, " ") + "}"
}

func TestParse(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"scalars", "a: 1\nb: 'x: y'\nc: true\nd:\ne: 1.50\n",
			"{a:1@1 b:x: y@2 c:true@3 d:null e:1.50@5}"},
		{"documents", "---\na: 1\n---\n---\n# nothing\n---\r\n- b\r\n- c\r\n", "{a:1@2} [b@7 c@8]"},
		{"blocks", "a: |\n  x\n  {{ y }}\nb: >-\n  p\n  q\n", "{a:x\n{{ y }}\n@1 b:p q@4}"},
		{"anchors", "a: &x {p: 1, q: 2}\nb:\n  <<: *x\n  q: 3\nc: [*x, *y]\n",
			"{a:{p:1@1 q:2@1} b:{q:3@4 p:1@1} c:[{p:1@1 q:2@1} ?]}"},
		{"several merges", "a: &x {p: 1}\nb: &y {p: 2, q: 2}\nc:\n  <<: [*x, *y]\n",
			"{a:{p:1@1} b:{p:2@2 q:2@2} c:{p:1@1 q:2@2}}"},
		{"tags", "a: !vault |\n  6162\nb: '{{ x }}'\nc: !!str 7\nd: !Ref x\n",
			"{a:? b:{{ x }}@3 c:7@4 d:?}"},
		{"JSON", `{"a": {"b": [1, null, true]}}`, "{a:{b:[1@1 null true@1]}}"},
	} {
		docs, err := new(Texts).Parse([]byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var got []string
		for _, d := range docs {
			got = append(got, show(d))
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, text, c.want)
		}
	}
	for text, want := range map[string]string{
		"a: &x {b: 1}\n---\nc:\n  <<: *x\n": "line 4: a merge key (<<) with the alias *x, which " +
			"stands for nothing in its document",
		"a:\n  <<: text\n":  "line 2: a merge key (<<) whose value is not a map",
		"a: 1\n...\nb: 2\n": "line 3: a second document, expected --- before it",
	} {
		if _, err := new(Texts).Parse([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%q: %v", text, err)
		}
	}
	var none *Value
	if none.Get("a").At("b", "c").String() != "" || none.Is(Map) ||
		none.List() != nil {
		t.Error("a missing value is not empty")
	}
}

// FuzzParse: no text causes a panic or an error of several lines, every value has a line of the
// text, and aliases do not multiply values without a limit.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"a: &x {p: 1}\nb:\n  <<: *x\nc: [*x, !t y]\n",
		"---\n- a: |\n    x\n",
		"{{ x }}\n", "? a\n: b\n", "a: \"\\u263a\"\n", "%YAML 1.2\n---\na: 1\n...\nb: 2\n",
		"&a [*a]"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		docs, err := new(Texts).Parse(raw)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %q", err)
			}
			return
		}
		lines := 1 + strings.Count(string(raw), "\n") + strings.Count(string(raw), "\r")
		for _, d := range docs {
			n := 0
			var walk func(*Value)
			walk = func(v *Value) {
				if n++; v.Line < 1 || v.Line > lines {
					t.Errorf("line %d of %d", v.Line, lines)
				}
				for _, item := range v.Items {
					walk(item)
				}
				for _, m := range v.Members {
					walk(m.Value)
				}
			}
			walk(d)
			if n > mostValues {
				t.Errorf("%d values", n)
			}
		}
	})
}
