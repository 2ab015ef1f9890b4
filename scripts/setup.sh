# Sourced by scripts/train and scripts/test: installs what is missing, configures and builds.
# shellcheck shell=bash

# Debian/Ubuntu packages of everything that is built. Used by the scripts that source this file.
# shellcheck disable=SC2034
dqn_packages=(build-essential cmake ninja-build pkg-config libyaml-dev libhdf5-dev libopenblas-dev
  zlib1g-dev libssl-dev)

# dqn_install PACKAGE...: installs the packages that are not there yet.
dqn_install() {
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    dqn_name_missing
    return
  fi
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f='${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
      missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return
  echo "Installing: ${missing[*]}"
  local sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || {
      echo "These packages are missing, and sudo is not there to install them: ${missing[*]}" >&2
      exit 1
    }
    sudo=(sudo)
  fi
  "${sudo[@]}" apt-get update -qq
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}" >/dev/null
}

# Without apt: says what the build will look for and does not find.
dqn_name_missing() {
  local missing=() tool module
  for tool in cc cmake ninja pkg-config; do
    command -v "$tool" >/dev/null || missing+=("$tool")
  done
  for module in yaml-0.1 openblas zlib libcrypto; do
    pkg-config --exists "$module" 2>/dev/null || missing+=("$module")
  done
  [ ${#missing[@]} -eq 0 ] ||
    echo "This is no Debian or Ubuntu; please install: ${missing[*]} (and HDF5's C library)." >&2
}

# Whether a GPU is at hand; its own architecture is then the one to build for.
dqn_has_gpu() {
  command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q GPU
}

# dqn_build FOLDER [CMAKE_OPTION...]: configures and builds. CUDA is used where nvcc is found.
dqn_build() {
  local folder=$1
  shift
  local log="$folder/build.log"
  mkdir -p "$folder"
  echo "Building in $folder, which can take minutes the first time; the log is $log"
  if ! { cmake -S . -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release "$@" && cmake --build "$folder"; } \
    >"$log" 2>&1; then
    tail -40 "$log" >&2
    echo "The build failed; the whole log is $log" >&2
    exit 1
  fi
  grep -m1 'CUDA backend' "$log" || true
}
