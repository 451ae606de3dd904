package kubernetes

import (
	"os/exec"
	"syscall"
)

// endsWithParent lets a program end also where this one is killed.
func endsWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
