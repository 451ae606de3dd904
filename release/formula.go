package main

import (
	"bytes"
	"text/template"
)

// formula installs a release with Homebrew.
var formula = template.Must(template.New("").Parse(`# Generated for {{.Version}}.
class Routekeeper < Formula
  desc "Keeps AKS pod routes and route tables correct"
  homepage "{{.Home}}"
  version "{{.Version}}"
  license "Apache-2.0"
{{range .Systems}}
  on_{{.Name}} do
{{- range .Archives}}
    on_{{.Processor}} do
      url "{{.URL}}"
      sha256 "{{.Sum}}"
    end
{{- end}}
  end
{{end}}
  def install
    bin.install "routekeeper"
    bin.install_symlink "routekeeper" => "kubectl-routekeeper"
    man1.install Dir["man/man1/*.1"]
    bash_completion.install "completions/routekeeper.bash" => "routekeeper"
    zsh_completion.install "completions/_routekeeper"
    fish_completion.install "completions/routekeeper.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/routekeeper version")
  end
end
`))

// writeFormula writes the formula, if the release has an address and all archives that it names.
func (r *release) writeFormula() error {
	if !r.at.known() {
		return nil
	}
	sums, err := r.sums()
	if err != nil {
		return err
	}
	type archive struct{ Processor, URL, Sum string }
	type system struct {
		Name     string
		Archives []archive
	}
	systems := []system{{Name: "macos"}, {Name: "linux"}}
	for i, os := range []string{"darwin", "linux"} {
		for _, processor := range []struct{ ruby, golang string }{{"arm", "arm64"},
			{"intel", "amd64"}} {
			name := r.archive(mainProgram, os+"/"+processor.golang) + ".tar.gz"
			if sums[name] == "" {
				return nil
			}
			systems[i].Archives = append(systems[i].Archives,
				archive{processor.ruby, r.at.file(r.tag, name), sums[name]})
		}
	}
	var out bytes.Buffer
	err = formula.Execute(&out,
		map[string]any{"Version": r.version, "Home": r.at.home(), "Systems": systems})
	if err != nil {
		return err
	}
	return r.write("routekeeper.rb", out.Bytes())
}
