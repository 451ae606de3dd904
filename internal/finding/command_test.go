package finding

import (
	"bytes"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// words runs a command line with a real shell, in which show prints each of its arguments, and
// returns those.
func words(t interface{ Fatalf(string, ...any) }, line string) []string {
	out, err := exec.Command("sh", "-c", `show() { for a; do printf '%s\000' "$a"; done; }; `+
		line).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return strings.Split(string(bytes.TrimSuffix(out, []byte{0})), "\x00")
}

// TestCommandIsPasted checks that a shell takes each value as one word, whatever is in it, and runs
// nothing of it.
func TestCommandIsPasted(t *testing.T) {
	for _, value := range []string{
		"", "plain", "a b", "$(echo no)", "`echo no`", "$HOME", "it's", `"`, `\`, "*", "~", "#",
		"a;b", "a&b", "a|b", ">x", "<x", "!", "{a,b}", "x-", "é", "a=b", "'", "''", "[a]", "?",
	} {
		if got := words(t, Command("show %s after", value).String()); len(got) != 2 ||
			got[0] != value || got[1] != "after" {
			t.Errorf("%q is taken as %q", value, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(
			rapid.OneOf(rapid.StringOf(
				rapid.RuneFrom([]rune("a $`'\"\\;&|<>()*?~#!{}[]=-\n\x1b\u202e"))), rapid.String()),
			1, 5).Draw(t, "values")
		line := Command("show %s", values).String()
		switch {
		case !shows(strings.Join(values, "")):
			if line != withheld {
				t.Fatalf("%q: %s", values, line)
			}
			return
		case slices.ContainsFunc(values, func(v string) bool {
			return len(v) > 1 && v[0] == '-' || strings.HasPrefix(v, "@") ||
				strings.Contains(v, "=@")
		}):
			if line != misread {
				t.Fatalf("%q: %s", values, line)
			}
			return
		}
		if got := words(t, line); strings.Join(got, "\x00") != strings.Join(values, "\x00") {
			t.Fatalf("%q are taken as %q: %s", values, got, line)
		}
	})
}

func TestCommand(t *testing.T) {
	type id string
	inner := Command("az a --ids %s", id("/x y"))
	for _, tt := range []struct {
		line CommandLine
		want string
	}{
		{inner, "az a --ids '/x y'"},
		{Command("if it is not meant: %s && az b --count %d", inner, 3),
			"if it is not meant: az a --ids '/x y' && az b --count 3"},
		{Command("az c --prefixes %s", []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"),
			netip.MustParsePrefix("fd00::/8")}), "az c --prefixes 10.0.0.0/8 fd00::/8"},
		{Command("az d -g %s", netip.MustParseAddr("10.0.0.1")), "az d -g 10.0.0.1"},
		{Command("first %s, then %s", Command("az a --ids %s", "x\x1b[31m"), inner), withheld},
		{Command("az a --ids %s", []string{"a", "b\u202e"}), withheld},
		{Command("az a -n %s", "-g"), misread},
		{Command("az a -n %s", "@/etc/passwd"), misread},
		{Command("az a --set %s", "tags=@/etc/passwd"), misread},
		{Command("%s && %s", Command("az a -n %s", "-g"), inner), misread},
		{Words("az", "a", "--ids", "x y"), "az a --ids 'x y'"},
		{Command("nothing to fill in: 100%%"), "nothing to fill in: 100%"},
	} {
		if tt.line.String() != tt.want {
			t.Errorf("%s, want %s", tt.line, tt.want)
		}
	}
}

func TestShow(t *testing.T) {
	for text, want := range map[string]string{
		"shop-rg/nodes → Ü 日本":   "shop-rg/nodes → Ü 日本",
		"a\nb\tc\rd":             `a\nb\tc\rd`,
		"\x1b[31m\x07\x7f\u009b": `\x1b[31m\x07\x7f\u009b`,
		"\u202e\u2066\u200e\u061c\u200b\ufeff\u00ad\u2028\U000e0001\u115f\ufe0f": `\u202e\u2066\u200e\u061c\u200b\ufeff\u00ad\u2028\U000e0001\u115f\ufe0f`,
		"\xff\xfe":              `\xff\xfe`,
		"a ##[error]b ##vso[c]": `a #\x23[error]b #\x23vso[c]`,
	} {
		if got := Show(text); got != want {
			t.Errorf("%q is shown as %s, want %s", text, got, want)
		}
	}
}

// TestRepeat: commands repeat the flags without which they would reach another Azure or config.
func TestRepeat(t *testing.T) {
	Repeat([]string{"--emulator", "a 100%"}, []string{"routes.yaml", "b c"})
	defer Repeat(nil, nil)
	for _, tt := range []struct {
		line CommandLine
		want string
	}{
		{Command("routekeeper promote %s%s", "shop", Config()),
			"routekeeper --emulator 'a 100%' promote shop -f routes.yaml -f 'b c'"},
		{Command("az a && routekeeper b %s && routekeeper c", "&& routekeeper d"),
			"az a && routekeeper --emulator 'a 100%' b '&& routekeeper d' && " +
				"routekeeper --emulator 'a 100%' c"},
		{Command("az show --name %s", "routekeeper x"), "az show --name 'routekeeper x'"},
	} {
		if tt.line.String() != tt.want {
			t.Errorf("%s, want %s", tt.line, tt.want)
		}
	}
	Repeat([]string{"--emulator", "az"}, []string{"routes\n.yaml"})
	if got := Command("routekeeper resume %s%s", "shop", Config()).String(); got != withheld {
		t.Errorf("with a config that cannot be shown: %s", got)
	}
	Repeat([]string{"--emulator", "a\u200bz"}, nil)
	for template, want := range map[string]string{"routekeeper resume": withheld,
		"az a && routekeeper b": withheld, "az a": "az a"} {
		if got := Command(template).String(); got != want {
			t.Errorf("%s with a flag that cannot be shown: %s", template, got)
		}
	}
}
