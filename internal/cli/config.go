package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/config"
	"routekeeper.dev/routekeeper/internal/input"
	"routekeeper.dev/routekeeper/internal/openfiles"
)

func configFlag(cmd *cobra.Command, paths *[]string) {
	cmd.Flags().StringArrayVarP(paths, "file", "f", nil,
		"config `FILE` with ClusterRoutes documents, folder, or - (repeatable)")
	_ = cmd.MarkFlagRequired("file")
	markConfig(cmd)
}

// isConfig is the annotation of a flag -f that names configs with ClusterRoutes documents.
const isConfig = "routekeeper/config"

// markConfig marks -f: the shell completes files for it, and printed commands repeat it.
func markConfig(cmd *cobra.Command) {
	_ = cmd.MarkFlagFilename("file", "yaml", "yml", "json")
	_ = cmd.Flags().SetAnnotation("file", isConfig, []string{"true"})
}

// readConfig reads all documents that -f names.
func (a *app) readConfig(paths []string) ([]v1alpha1.ClusterRoutes, error) {
	return readConfigOf(a, "-f", paths)
}

// readConfigOf reads all documents that a flag names.
func readConfigOf(a *app, flag string, paths []string) ([]v1alpha1.ClusterRoutes, error) {
	files, err := a.readFiles(flag, paths)
	if err != nil {
		return nil, err
	}
	return config.Read(files...)
}

// readFiles reads all files that a flag names.
func (a *app) readFiles(flag string, paths []string) ([]config.File, error) {
	var files []config.File
	for _, path := range paths {
		found, err := configFiles(a, path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: %s does not exist (routekeeper init --out %s writes one)",
				flag, path, path)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		files = append(files, found...)
	}
	return files, nil
}

func configFiles(a *app, path string) ([]config.File, error) {
	if path == "-" {
		data, err := a.standardInput()
		return []config.File{{Name: "standard input", Data: data}}, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	names := []string{path}
	if info.IsDir() {
		if names, err = configFilesIn(path); err != nil {
			return nil, err
		}
	}
	var files []config.File
	for _, name := range names {
		data, err := input.ReadFile(name, input.Text)
		if err != nil {
			return nil, unread(name, err)
		}
		files = append(files, config.File{Name: name, Data: data})
	}
	return files, nil
}

// configFilesIn lists the YAML and JSON files of a folder. It leaves out hidden files, which
// editors write, and subfolders.
func configFilesIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir) // sorted
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		extension := strings.ToLower(filepath.Ext(e.Name()))
		if !e.IsDir() && !strings.HasPrefix(e.Name(), ".") &&
			slices.Contains([]string{".yaml", ".yml", ".json"}, extension) {
			names = append(names, filepath.Join(dir, e.Name()))
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s: no .yaml, .yml or .json file in this folder", dir)
	}
	return names, nil
}

// fingerprint identifies one state of the files of a config: their names, sizes and times.
func fingerprint(paths []string) (string, error) {
	var b strings.Builder
	for _, path := range paths {
		names := []string{path}
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			if names, err = configFilesIn(path); openfiles.Is(err) {
				return "", err // reading the config reports other errors
			}
		}
		for _, name := range names {
			if info, err := os.Stat(name); err == nil {
				fmt.Fprintln(&b, name, info.Size(), info.ModTime().UnixNano())
			}
		}
	}
	return b.String(), nil
}
