package iac

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/lazy"
)

// How it works. ReadFolder walks a folder once and sorts its files by kind. Then it reads each
// kind: configurations of Terraform, all manifests together, and each template. A file that is not
// read becomes a note if it may matter to route tables.

// Part is what a folder holds of one kind: its configuration, its manifests, or one template. Name
// is the folder or file that it comes from.
type Part struct {
	Name string
	*Reading
}

const (
	// mostFiles limits the files of a folder that are opened.
	mostFiles = 5000
	// mostFolders limits the folders with .tf files.
	mostFolders = 500
)

// ErrNoCode says that a folder has no code of any kind.
var ErrNoCode = errors.New("there are no .tf files, ARM templates or Kubernetes manifests " +
	"in it")

// folderCode collects the files of a folder.
type folderCode struct {
	files      fs.FS
	root       string
	manifests  *manifests
	terraform  []string // folders with .tf files
	templates  []File
	parameters []File
	bicep      map[string]string // the text of Bicep files, by name
	opened     int
	size       int
	notes      []Note // always told
	// reported only if nothing is read: these files do not mention anything that matters
	aside []Note
}

// ReadFolder reads all the code below a folder: Terraform configuration, manifests,
// ARM templates with their parameter files. Other files are left out. A file of code
// that cannot be read is a note, except in the folder's own configuration.
func ReadFolder(files fs.FS, dir string, o TemplateOptions) ([]Part, error) {
	c := &folderCode{files: files, root: path.Clean(dir), bicep: map[string]string{},
		manifests: newManifests()}
	if err := fs.WalkDir(files, c.root, c.visit); err != nil {
		return nil, err
	}
	parts, err := c.configurations()
	if err != nil {
		return nil, err
	}
	known := slices.Clone(o.Carriers)
	for _, p := range parts {
		known = append(known, p.Carriers...)
	}
	if c.manifests.found {
		parts = append(parts, Part{c.root, c.manifests.judged(known)})
		known = append(known, parts[len(parts)-1].Carriers...)
	}
	o.Carriers = known
	parts = append(parts, c.deployments(o)...)
	c.uncompiled()
	switch {
	case len(parts) > 0:
		parts[0].Notes = append(parts[0].Notes, c.notes...)
		return parts, nil
	case len(c.notes)+len(c.aside) > 0:
		n := append(c.notes, c.aside...)[0]
		return nil, errors.New(path.Base(n.File) + ": " + n.Text)
	}
	return nil, ErrNoCode
}

// visit sorts a file by its kind.
func (c *folderCode) visit(name string, entry fs.DirEntry, err error) error {
	switch dir := path.Dir(name); {
	case err != nil:
		return err
	case entry.IsDir():
		return c.enter(name)
	case isCode(name):
		if !slices.Contains(c.terraform, dir) {
			c.terraform = append(c.terraform, dir)
		}
		if len(c.terraform) > mostFolders {
			return fmt.Errorf("more than %d folders in it have .tf files: name fewer of them",
				mostFolders)
		}
		return nil
	case strings.HasSuffix(name, ".tf.json"), strings.HasSuffix(name, ".tofu.json"):
		data, err := c.read(name)
		c.notRead(name, matter().Match(data), "it is not read: check a plan of the folder")
		return err
	case isYAML(name):
		data, err := c.read(name)
		if err == nil {
			c.addYAML(name, data)
		}
		return err
	case strings.HasSuffix(name, ".json"):
		return c.readJSON(name)
	case strings.HasSuffix(name, ".bicep"):
		data, err := c.read(name)
		c.bicep[name] = string(data)
		return err
	}
	return nil
}

// read reads a file, as long as the limits of the folder allow it.
func (c *folderCode) read(name string) ([]byte, error) {
	if c.opened == mostFiles {
		return nil, c.count(0)
	}
	data, err := fs.ReadFile(c.files, name)
	if err != nil {
		return nil, err
	}
	return data, c.count(len(data))
}

// count counts a file that was opened.
func (c *folderCode) count(size int) error {
	if c.opened++; c.opened > mostFiles {
		return fmt.Errorf("it has more than %d YAML, JSON and Bicep files: name the folders with "+
			"the code", mostFiles)
	}
	if c.size += size; c.size > mostCode {
		return fmt.Errorf("its YAML, JSON and Bicep files are larger than %d MiB: name the "+
			"folders with the code", mostCode>>20)
	}
	return nil
}

// matter matches code that may write subnets or route tables, or place clusters.
var matter = lazy.Regexp(`(?i)network\.azure\.com|containerservice\.azure\.com|` +
	`infrastructure\.cluster\.x-k8s\.io|virtual-?networks?\b|route-?tables?\b|` +
	`managed-?clusters?\b|azurerm_|azapi_|azure_rm_`)

// notRead notes that a file is not read. It may be reported only if nothing else is.
func (c *folderCode) notRead(name string, matters bool, format string, args ...any) {
	n := Note{Place: Place{File: name, Line: 1}, Unknown: true, Text: fmt.Sprintf(format, args...)}
	if matters {
		c.notes = append(c.notes, n)
	} else {
		c.aside = append(c.aside, n)
	}
}

// enter decides whether the files below a folder are read: not hidden ones, and no templates, which
// are YAML only after they are rendered.
func (c *folderCode) enter(name string) error {
	base := path.Base(name)
	switch {
	case name == c.root:
		return nil
	case strings.HasPrefix(base, "."), base == "node_modules":
		return fs.SkipDir
	case base == "templates":
		chart := path.Join(path.Dir(name), "Chart.yaml")
		if _, err := fs.Stat(c.files, chart); err != nil {
			return fs.SkipDir
		}
		matters, err := c.mentions(name)
		if err != nil {
			return err
		}
		c.notRead(chart, matters, "a Helm chart is not evaluated: helm template DIR | routekeeper "+
			"iac check -")
		return fs.SkipDir
	}
	return nil
}

// mentions reports whether a chart's templates mention what matters.
func (c *folderCode) mentions(dir string) (matters bool, err error) {
	err = fs.WalkDir(c.files, dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		data, err := c.read(name)
		matters = matters || matter().Match(data)
		return err
	})
	return matters, err
}

// addYAML adds the manifests of a file.
func (c *folderCode) addYAML(name string, data []byte) {
	docs, err := c.manifests.texts.Parse(data)
	if err != nil {
		c.notRead(name, matter().Match(data), "it was not read: %v", err)
		return
	}
	if !c.manifests.add(name, docs) && bytes.Contains(data, []byte("azure_rm_")) {
		c.notRead(name, true, "Ansible is not read: once it has run, routekeeper doctor shows "+
			"what is wrong")
	}
}

// readJSON collects templates, their parameters and manifests. Other JSON is not code, or shows one
// moment. A plan, for example, is not read because it may be old.
func (c *folderCode) readJSON(name string) error {
	f, err := c.files.Open(name)
	if err != nil {
		return nil // a pipe, or too large for a template
	}
	defer f.Close()
	s := newStream(f)
	start, err := s.start()
	if err != nil || len(start) == 0 || start[0] != '{' && !isTemplate(start) {
		return nil
	}
	keys, schema := topKeys(start), bytes.ToLower(start)
	isPlan := keys["format_version"] && keys["terraform_version"]
	manifest := keys["apiVersion"] && keys["kind"]
	parameters := keys["parametersJson"] ||
		bytes.Contains(schema, []byte("deploymentparameters.json"))
	if !isPlan && !manifest && !parameters && !isTemplate(start) && !keys["changes"] &&
		!keys["Changes"] {
		return nil
	}
	if isPlan {
		c.notes = append(c.notes, Note{Place: Place{File: name, Line: 1},
			Text: "a plan or state is not read with its folder: name the file to check it"})
		return nil
	}
	data, err := io.ReadAll(io.MultiReader(bytes.NewReader(s.buf[s.pos:s.end]), f))
	if err != nil {
		return err
	}
	if err := c.count(len(data)); err != nil {
		return err
	}
	switch {
	case manifest:
		c.addYAML(name, data)
	case parameters && IsParameters(data):
		c.parameters = append(c.parameters, File{name, data})
	case isTemplate(data):
		c.templates = append(c.templates, File{name, data})
	case IsWhatIf(data):
		c.notes = append(c.notes, Note{Place: Place{File: name, Line: 1},
			Text: "a what-if result is not read with its folder: name the file to check it"})
	}
	return nil
}

// configurations reads the configuration of each folder with .tf files that is not a module of
// another.
func (c *folderCode) configurations() ([]Part, error) {
	called := map[string]bool{}
	var sources []*Source
	size, modules := 0, 0
	for _, dir := range c.terraform {
		s, err := ReadSource(c.files, dir)
		var syntax *SyntaxError
		switch {
		case err != nil && (dir == c.root || !errors.As(err, &syntax)):
			return nil, err
		case err != nil:
			c.notes = append(c.notes, Note{Place: Place{File: syntax.File,
				Line: max(syntax.Line, 1)}, Unknown: true,
				Text: "it was not read, nor its folder: it is not valid HCL: " + syntax.Summary})
			continue
		}
		if size += s.bytes; size > mostCode {
			return nil, fmt.Errorf("the .tf files of its folders and their modules are larger "+
				"than %d MiB: name fewer folders", mostCode>>20)
		}
		if modules += len(s.modules); modules > mostFiles {
			return nil, fmt.Errorf("its folders call more than %d modules: name fewer folders",
				mostFiles)
		}
		sources = append(sources, s)
		for _, m := range s.modules[1:] {
			called[m.dir] = true
		}
	}
	var parts []Part
	for _, s := range sources {
		if dir := s.modules[0].dir; dir == c.root || !called[dir] {
			parts = append(parts, Part{dir, s.Reading()})
		}
	}
	return parts, nil
}

// deployments reads the templates. A parameter file belongs to the templates of its folder, and of
// the folders above it.
func (c *folderCode) deployments(o TemplateOptions) []Part {
	var parts []Part
	for _, file := range c.templates {
		var names []string
		var near []File
		dir := path.Dir(file.Name)
		for _, t := range c.templates {
			if path.Dir(t.Name) == dir {
				names = append(names, t.Name)
			}
		}
		for _, p := range c.parameters {
			if path.Dir(p.Name) == dir || strings.HasPrefix(p.Name, dir+"/") {
				near = append(near, p)
			}
		}
		o.Parameters = ParametersFor(file.Name, names, near)
		r, err := ReadTemplate(file, o)
		if err != nil {
			c.notRead(file.Name, true, "it was not read: %v", err)
			continue
		}
		parts = append(parts, Part{file.Name, r})
	}
	return parts
}

// bicepModule is the statement that uses another file.
var bicepModule = lazy.Regexp(`(?m)^\s*module\s+\w+\s+'([^'\n]+\.bicep)'`)

// uncompiled notes the Bicep files whose compiled template is not in the folder: neither their own
// nor that of a file that uses them.
func (c *folderCode) uncompiled() {
	covered := map[string]bool{}
	var cover func(name string)
	cover = func(name string) {
		if covered[name] {
			return
		}
		covered[name] = true
		for _, m := range bicepModule().FindAllStringSubmatch(c.bicep[name], -1) {
			cover(path.Join(path.Dir(name), m[1]))
		}
	}
	for _, t := range c.templates {
		if name := strings.TrimSuffix(t.Name, ".json") + ".bicep"; c.bicep[name] != "" {
			cover(name)
		}
	}
	var left []string
	matters, used := false, map[string]bool{}
	for name, text := range c.bicep {
		if !covered[name] {
			left = append(left, name)
			matters = matters || matter().MatchString(text)
			for _, m := range bicepModule().FindAllStringSubmatch(text, -1) {
				used[path.Join(path.Dir(name), m[1])] = true
			}
		}
	}
	if roots := slices.DeleteFunc(slices.Clone(left), func(name string) bool {
		return used[name]
	}); len(roots) > 0 {
		left = roots
	}
	if len(left) == 0 {
		return
	}
	slices.Sort(left)
	names := path.Base(left[0])
	if len(left) > 1 {
		names += fmt.Sprintf(" and %d more", len(left)-1)
	}
	c.notRead(left[0], matters, "Bicep is read compiled: %s: az bicep build --file FILE, and "+
		"check the folder again", names)
}
