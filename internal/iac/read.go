package iac

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"routekeeper.dev/routekeeper/internal/iac/armtemplate"
)

// errUnknownFormat says that a file has none of the formats.
var errUnknownFormat = errors.New("unknown format: expected a plan or state of Terraform or " +
	"OpenTofu as `terraform show -json` writes it, a terraform.tfstate, .tf files, an ARM " +
	"template, a what-if result or Kubernetes manifests")

// errBicep says that only compiled Bicep is read.
var errBicep = errors.New("expected the compiled template: az bicep build --file FILE, or " +
	"az bicep build-params for a .bicepparam file")

// Read reads a file of any format, recognised by content. name is only used for messages and for
// .tf files, the options for templates.
func Read(name string, r io.Reader, o TemplateOptions) (*Reading, error) {
	s := newStream(r)
	start, err := s.start()
	if err != nil {
		return nil, err
	}
	if isCode(name) {
		return readConfigFile(name, s)
	}
	switch keys := topKeys(start); {
	case len(start) == 0:
		return nil, errors.New("it is empty")
	case bytes.HasPrefix(start, []byte("PK\x03\x04")):
		return nil, errors.New("it is a binary plan file: write it as JSON with terraform show " +
			"-json FILE (or tofu show -json FILE)")
	case strings.HasSuffix(name, ".bicep"), strings.HasSuffix(name, ".bicepparam"):
		return nil, errBicep
	case start[0] != '{' && start[0] != '[' && start[0] != '/', keys["apiVersion"] && keys["kind"],
		bytes.HasPrefix(start, []byte("{{")), bytes.HasPrefix(start, []byte("{%")):
		return readManifests(name, s, o.Carriers)
	case keys["encrypted_data"]:
		return nil, errors.New("it is encrypted by OpenTofu: write it as JSON with tofu show -json")
	case keys["@level"]:
		return nil, errors.New("it is the log of terraform plan -json: write the plan with -out " +
			"FILE, and then terraform show -json FILE")
	case keys["serial"] || keys["lineage"]:
		return readState(s)
	case keys["format_version"] || keys["terraform_version"] || keys["resource_changes"] ||
		keys["configuration"] || keys["planned_values"]:
		plan, err := readTerraform(s)
		if err != nil {
			return nil, err
		}
		return plan.judge(), nil
	case keys["changes"] || keys["Changes"] || keys["status"] || keys["Status"], isTemplate(start):
		data, err := s.rest()
		if err != nil {
			return nil, err
		}
		if IsWhatIf(data) {
			return ReadWhatIf(File{name, data})
		}
		if isTemplate(data) {
			return ReadTemplate(File{name, data}, o)
		}
	}
	if data, err := s.rest(); err == nil {
		var cut *json.SyntaxError
		if err := json.Unmarshal(data, new(any)); errors.As(err, &cut) &&
			int(cut.Offset) >= len(bytes.TrimSpace(data)) {
			return nil, fmt.Errorf("line %d: the JSON ends in the middle: was the command that "+
				"writes it interrupted?", 1+bytes.Count(bytes.TrimSpace(data), []byte("\n")))
		}
	}
	return nil, errUnknownFormat
}

// isTemplate searches for a template's schema without reading JSON: comments may precede it.
func isTemplate(data []byte) bool {
	return bytes.Contains(bytes.ToLower(data), []byte("deploymenttemplate.json"))
}

// ReadParameters returns a parameter file for templates, and nil for any other file.
func ReadParameters(name string, r io.Reader) (*File, error) {
	s := newStream(r)
	start, err := s.start()
	if err != nil {
		return nil, nil // other readers report the reason
	}
	if !bytes.Contains(start, []byte("parametersJson")) &&
		!bytes.Contains(bytes.ToLower(start), []byte("deploymentparameters.json")) {
		return nil, nil
	}
	data, err := s.rest()
	if err != nil {
		return nil, err
	}
	if !IsParameters(data) {
		if topKeys(start)["$schema"] && !isTemplate(start) {
			_, err = armtemplate.Parse(name, data) // it is broken
		}
		return nil, err
	}
	return &File{name, data}, nil
}

// rest returns everything that is not read yet.
func (s *stream) rest() ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(s.r, armtemplate.MaxSize+1))
	return append(bytes.Clone(s.buf[s.pos:s.end]), data...), err
}

// peekSize is how much of a file is read to recognise its format.
const peekSize = window

// start returns the beginning of the file without consuming it. It skips a UTF-8 byte order mark.
func (s *stream) start() ([]byte, error) {
	for s.end < peekSize {
		if err := s.more(); errors.Is(err, errCut) {
			break
		} else if err != nil {
			return nil, err
		}
	}
	start := s.buf[:s.end]
	switch {
	case bytes.HasPrefix(start, []byte("\xff\xfe")), bytes.HasPrefix(start, []byte("\xfe\xff")):
		return nil, errors.New("it is UTF-16, as PowerShell's > writes it: write it as UTF-8, " +
			"with | Out-File -Encoding utf8 FILE")
	case bytes.HasPrefix(start, []byte("\xef\xbb\xbf")):
		s.pos = 3
	}
	return bytes.TrimLeft(s.buf[s.pos:s.end], " \t\r\n"), nil
}

// topKeys returns the keys of the outermost object, as far as the beginning of a file shows them.
func topKeys(start []byte) map[string]bool {
	keys := map[string]bool{}
	s := newStream(bytes.NewReader(start))
	_ = s.object(func(key string) error { // it is cut off somewhere
		keys[key] = true
		return s.skip()
	})
	return keys
}

// syntax says where a JSON error is.
func syntax(err error) error {
	if bad, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("it is not valid JSON: at byte %d: %w", bad.Offset, err)
	}
	return err
}
