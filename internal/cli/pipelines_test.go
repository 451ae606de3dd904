package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// docsAt is the path from here to the repository's root.
const docsAt = "../.."

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(docsAt, filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalWithOptions(raw, into, yaml.DisallowUnknownField()); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// commandEnd matches the end of a command in a shell.
var commandEnd = regexp.MustCompile(`\s(\|\|?|&&|;|>>?|2>)(\s|$)`)

// commandLines are the lines of a shell script that call this program.
func commandLines(script string) (lines []string) {
	for line := range strings.Lines(strings.ReplaceAll(script, "\\\n", " ")) {
		line = strings.TrimSpace(line)
		if _, behind, piped := strings.Cut(line, "| routekeeper "); piped {
			line = "routekeeper " + behind
		}
		if strings.HasPrefix(line, "routekeeper ") {
			if at := commandEnd.FindStringIndex(line); at != nil {
				line = line[:at[0]]
			}
			lines = append(lines, line)
		}
	}
	return lines
}

// refusal is why the real command line would refuse a command, its flags or its number of
// arguments; nil if it would not.
func refusal(line string) error {
	words := strings.Fields(strings.ReplaceAll(line, `"`, ""))
	cmd, rest, err := (&app{}).newRoot().Find(words[1:])
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	if err == nil && cmd.PreRunE != nil {
		err = cmd.PreRunE(cmd, cmd.Flags().Args())
	}
	if err == nil {
		err = cmd.ValidateArgs(cmd.Flags().Args())
	}
	return err
}

func accepts(t *testing.T, where, line string) {
	t.Helper()
	if err := refusal(line); err != nil {
		t.Errorf("%s: %s: %v", where, line, err)
	}
}

// TestCommandLines tests the two functions above with valid and invalid lines.
func TestCommandLines(t *testing.T) {
	script := "set -e\nroutekeeper version || [ $? -eq 2 ]\n  az x | routekeeper init schema > " +
		"file\nroutekeeper \\\n  diff --source a\nexport routekeeper\n"
	if got, want := commandLines(script), []string{"routekeeper version", "routekeeper init schema",
		"routekeeper    diff --source a"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if err := refusal(`routekeeper sync -f "routes.yaml" --dry-run -o markdown`); err != nil {
		t.Error(err)
	}
	for _, wrong := range []string{"routekeeper synk", "routekeeper sync --dryrun",
		"routekeeper sync -o sarif", "routekeeper status more"} {
		if refusal(wrong) == nil {
			t.Errorf("%s is taken", wrong)
		}
	}
}

type githubStep struct {
	Name, ID, Uses, Run, If string
	With, Env               map[string]any
	ContinueOnError         bool `yaml:"continue-on-error"`
}

func TestGitHubWorkflow(t *testing.T) {
	const path = "docs/pipelines/github-actions.yml"
	var w struct {
		Name        string
		On          map[string]any
		Permissions map[string]string
		Jobs        map[string]struct {
			RunsOn string `yaml:"runs-on"`
			Env    map[string]string
			Steps  []githubStep
		}
	}
	readYAML(t, path, &w)
	for _, needed := range []string{"security-events", "pull-requests", "id-token"} {
		if w.Permissions[needed] != "write" {
			t.Errorf("%s: permission %s is %q", path, needed, w.Permissions[needed])
		}
	}
	if w.On["pull_request"] == nil || len(w.Jobs) != 1 {
		t.Fatalf("%s: on %v, %d jobs", path, w.On, len(w.Jobs))
	}
	calls, uploads, stops := 0, false, false
	for _, job := range w.Jobs {
		ids := map[string]bool{}
		for _, s := range job.Steps {
			if (s.Uses == "") == (s.Run == "") {
				t.Errorf("%s: a step needs one of uses and run: %+v", path, s)
			}
			if s.Uses != "" && !regexp.MustCompile(`^[\w.-]+/[\w./-]+@v\d+$`).MatchString(s.Uses) {
				t.Errorf("%s: %s names no version", path, s.Uses)
			}
			ids[s.ID] = true
			for _, m := range regexp.MustCompile(`steps\.(\w+)\.`).FindAllStringSubmatch(s.If, -1) {
				if !ids[m[1]] {
					t.Errorf("%s: no step before this one is called %s", path, m[1])
				}
			}
			uploads = uploads || strings.HasPrefix(s.Uses, "github/codeql-action/upload-sarif@") &&
				s.With["sarif_file"] == "routekeeper.sarif"
			stops = stops || s.If == "steps.check.outcome == 'failure'" && s.Run == "exit 1"
			for _, line := range commandLines(s.Run) {
				calls++
				accepts(t, path, line)
			}
		}
		if job.RunsOn == "" {
			t.Errorf("%s: the job runs nowhere", path)
		}
	}
	if calls != 2 || !uploads || !stops {
		t.Errorf("%s: %d calls, uploads the SARIF file: %t, stops for findings: %t", path, calls,
			uploads, stops)
	}
}

func TestAzurePipeline(t *testing.T) {
	const path = "docs/pipelines/azure-pipelines.yml"
	var p struct {
		Trigger   string
		Resources struct {
			Repositories []struct{ Repository, Type, Name string }
		}
		Pool struct {
			VMImage string `yaml:"vmImage"`
		}
		Steps []struct {
			Checkout, Path, Task, Script, Bash, Condition string
			DisplayName                                   string `yaml:"displayName"`
			Inputs, Env                                   map[string]any
		}
	}
	readYAML(t, path, &p)
	calls, publishes := 0, false
	for _, s := range p.Steps {
		kinds := 0
		for _, kind := range []string{s.Checkout, s.Task, s.Script, s.Bash} {
			if kind != "" {
				kinds++
			}
		}
		if kinds != 1 || s.Task != "" && !regexp.MustCompile(`^\w+@\d+$`).MatchString(s.Task) {
			t.Errorf("%s: a step is one thing, a task one of a version: %+v", path, s)
		}
		publishes = publishes || s.Task == "PublishBuildArtifacts@1" &&
			s.Inputs["pathToPublish"] == "sarif" && s.Condition == "succeededOrFailed()"
		for _, line := range commandLines(s.Script + "\n" + s.Bash) {
			calls++
			accepts(t, path, line)
		}
	}
	if p.Pool.VMImage == "" || calls != 2 || !publishes {
		t.Errorf("%s: on %q, %d calls, publishes: %t", path, p.Pool.VMImage, calls, publishes)
	}
}

func TestPreCommitHooks(t *testing.T) {
	const path = ".pre-commit-hooks.yaml"
	var hooks []struct {
		ID, Name, Description, Entry, Language, Files string
		Args                                          []string
		PassFilenames                                 *bool `yaml:"pass_filenames"`
	}
	readYAML(t, path, &hooks)
	if len(hooks) != 1 {
		t.Fatalf("%s has %d hooks", path, len(hooks))
	}
	h := hooks[0]
	files, err := regexp.Compile(h.Files)
	if err != nil || !files.MatchString("infra/main.tf") || files.MatchString("infra/main.tf.md") {
		t.Errorf("%s: files %q, %v", path, h.Files, err)
	}
	if h.ID == "" || h.Name == "" || h.Language != "golang" || h.PassFilenames == nil ||
		*h.PassFilenames {
		t.Errorf("%s: %+v", path, h)
	}
	accepts(t, path, h.Entry+" "+strings.Join(h.Args, " "))
	page, err := os.ReadFile(filepath.Join(docsAt, "docs", "pipelines.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "- id: "+h.ID+"\n") {
		t.Errorf("docs/pipelines.md does not use %s", h.ID)
	}
	lines := commandLines(string(page))
	if len(lines) == 0 {
		t.Error("docs/pipelines.md shows no command")
	}
	for _, line := range lines {
		accepts(t, "docs/pipelines.md", line)
	}
}
