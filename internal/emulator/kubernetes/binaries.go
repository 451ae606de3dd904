package kubernetes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Binaries are the programs of a control plane.
type Binaries struct {
	APIServer, Etcd, ControllerManager, Scheduler string
}

// BinariesVariable names the environment variable with the folder where .ci/kube builds them.
const BinariesVariable = "ROUTEKEEPER_KUBE_BINARIES"

// BinariesFolder returns the folder in which .ci/kube builds the programs.
func BinariesFolder() (string, error) {
	if folder := os.Getenv(BinariesVariable); folder != "" {
		return folder, nil
	}
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "routekeeper", "kube"), err
}

// Find finds the programs: etcd, kube-controller-manager and kube-scheduler are in the folder of
// kube-apiserver, unless etcd's path is given.
func Find(apiServer, etcd string) (Binaries, error) {
	if info, err := os.Stat(apiServer); err == nil && info.IsDir() {
		apiServer = filepath.Join(apiServer, "kube-apiserver"+suffix())
	}
	folder := filepath.Dir(apiServer)
	b := Binaries{
		APIServer: apiServer, Etcd: etcd,
		ControllerManager: filepath.Join(folder, "kube-controller-manager"+suffix()),
		Scheduler:         filepath.Join(folder, "kube-scheduler"+suffix()),
	}
	if b.Etcd == "" {
		b.Etcd = filepath.Join(folder, "etcd"+suffix())
	}
	var lacking []string
	for _, path := range []*string{&b.APIServer, &b.Etcd, &b.ControllerManager, &b.Scheduler} {
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return b, err
		}
		*path = absolute
		if _, err := os.Stat(absolute); errors.Is(err, fs.ErrNotExist) {
			lacking = append(lacking, absolute)
		} else if err != nil {
			return b, err
		}
	}
	if len(lacking) > 0 {
		return b, fmt.Errorf("no %s: build them from routekeeper's source with .ci/kube (5 to 10 "+
			"minutes, once)", strings.Join(lacking, ", nor "))
	}
	return b, nil
}

func suffix() string {
	if runtime.GOOS == "windows" {
		return ".exe"
	}
	return ""
}
