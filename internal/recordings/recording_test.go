package recordings

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// call is one recorded call.
type call struct {
	Method       string            `json:"m"`
	URL          string            `json:"u"`
	Header       map[string]string `json:"h"`
	Body         string            `json:"b"`
	Status       int               `json:"s"`
	AnswerHeader map[string]string `json:"rh"`
	Answer       string            `json:"rb"`
	request      request
}

// recording is a conversation, named SOURCE/NAME.
type recording struct {
	name  string
	calls []*call
}

// load reads recordings from a folder or a .tgz: one file each, one call per line.
func load(t *testing.T, from string) []recording {
	t.Helper()
	var out []recording
	add := func(name string, content io.Reader) {
		if !strings.HasSuffix(name, ".jsonl") {
			return
		}
		raw, err := io.ReadAll(content)
		if err != nil {
			t.Fatal(err)
		}
		r := recording{
			name: filepath.Base(
				filepath.Dir(name),
			) + "/" + strings.TrimSuffix(
				filepath.Base(name),
				".jsonl",
			),
		}
		lines := bufio.NewScanner(
			bytes.NewReader(
				bytes.ReplaceAll(
					raw,
					[]byte("<AZURE_SUBSCRIPTION_ID>"),
					[]byte("00000000-0000-0000-0000-000000000000"),
				),
			),
		)
		lines.Buffer(nil, 64<<20)
		for lines.Scan() {
			c := &call{}
			if err := json.Unmarshal(lines.Bytes(), c); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			c.request = parseRequest(c.URL)
			r.calls = append(r.calls, c)
		}
		if err := lines.Err(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if r.relevant() {
			out = append(out, r)
		}
	}
	if strings.HasSuffix(from, "gz") {
		file, err := os.Open(from)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		unzipped, err := gzip.NewReader(file)
		if err != nil {
			t.Fatal(err)
		}
		archive := tar.NewReader(unzipped)
		for {
			header, err := archive.Next()
			if errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			add(header.Name, archive)
		}
	} else if err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		add(path, bytes.NewReader(raw))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(out, func(a, b recording) int { return strings.Compare(a.name, b.name) })
	return out
}

// relevant reports whether a recording has calls that are measured, in addition to those of groups
// and subscriptions that every one has.
func (r recording) relevant() bool {
	name := filepath.Base(r.name)
	whole := strings.HasPrefix(name, "resource__") || strings.HasPrefix(name, "role__") ||
		strings.Contains(name, "Resources") ||
		strings.Contains(name, "ResourceGroup")
	return slices.ContainsFunc(r.calls, func(c *call) bool {
		plain := c.request.namespace == "" || c.request.namespace == "providers"
		return c.request.measured() && (whole || !plain)
	})
}

// decoded is a JSON document, nil for other text.
func decoded(text string) any {
	var v any
	if json.Unmarshal([]byte(strings.TrimPrefix(text, "\ufeff")), &v) != nil {
		return nil
	}
	return v
}

func object(v any) map[string]any { o, _ := v.(map[string]any); return o }

func textOf(v any) string { s, _ := v.(string); return s }

// errorOf reads the code and message of an error answer, in all of Azure's forms.
func errorOf(answer string) (code, message string) {
	o := object(decoded(answer))
	for _, outer := range []string{"error", "odata.error"} {
		if inner := object(o[outer]); inner != nil {
			o = inner
			break
		}
	}
	for _, field := range []string{"Code", "code"} {
		if s := textOf(o[field]); s != "" {
			code = s
		}
	}
	message = textOf(o["message"])
	if inner := object(o["message"]); inner != nil {
		message = textOf(inner["value"])
	} else if message == "" {
		message = textOf(o["Message"])
	}
	return code, message
}
