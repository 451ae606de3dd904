package kernel

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"

	"github.com/goccy/go-yaml"

	"routekeeper.dev/routekeeper/internal/input"
	"routekeeper.dev/routekeeper/internal/yamllimits"
)

// ReadFaults reads faults from a YAML or JSON file that holds a list of them.
func ReadFaults(path string) ([]Fault, error) {
	raw, err := input.ReadFile(path, input.Small)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist", path)
	}
	if err != nil {
		return nil, err
	}
	if err := yamllimits.Check(raw); err != nil {
		return nil, fmt.Errorf("%s is not a list of faults: %w", path, err)
	}
	var faults []Fault
	if err := yaml.NewDecoder(bytes.NewReader(raw), yaml.Strict()).Decode(&faults); err != nil {
		return nil, fmt.Errorf("%s is not a list of faults: %s", path,
			yaml.FormatError(err, false, false))
	}
	for i, f := range faults {
		if err := f.check(); err != nil {
			return nil, fmt.Errorf("%s: fault %d: %w", path, i+1, err)
		}
	}
	return faults, nil
}
