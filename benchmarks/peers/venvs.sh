#!/usr/bin/env bash
# One virtual environment per peer, under $PEERS_VENVS (default ~/.cache/peers).
#   venvs.sh [PEER ...]     by default all of them
# torch comes first everywhere and in the same version, so that all run on the same build.
set -u
: "${PEERS_VENVS:=$HOME/.cache/peers}"
: "${TORCH_SPEC:=torch==2.13.0}"
: "${PY:=python3}"

requirements() {
  case "$1" in
    sb3)      echo "stable-baselines3==2.9.* ale-py==0.12.* opencv-python-headless gymnasium==1.4.* mujoco==4.0.0 mujoco-core==4.0.0 mujoco-studio==4.0.0 imageio box2d pygame-ce minatar" ;;
    tianshou) echo "tianshou==2.0.1 gymnasium==1.4.*" ;;
    torchrl)  echo "torchrl==0.14.* gymnasium" ;;
    torchrl_replay) echo "torchrl==0.14.* numpy" ;;
    rllib)    echo "ray[rllib]==2.60.* ale-py==0.12.* opencv-python-headless gymnasium" ;;
    sample_factory) echo "sample-factory==2.1.1" ;;
    spark)    echo "pyspark==4.3.* gymnasium==1.4.* numpy" ;;
    *) return 1 ;;
  esac
}

# TorchRL's replay is compiled, and loads only beside the torch it was compiled for.
torch_for() {
  case "$1" in
    torchrl_replay) echo "torch==2.14.*" ;;
    *) echo "$TORCH_SPEC" ;;
  esac
}

peers=("$@")
[ ${#peers[@]} -eq 0 ] && peers=(sb3 tianshou torchrl torchrl_replay rllib sample_factory spark)
mkdir -p "$PEERS_VENVS" || exit 1
failed=0
for peer in "${peers[@]}"; do
  folder="$PEERS_VENVS/$peer"
  [ -f "$folder/.ok" ] && continue
  if ! wanted="$(requirements "$peer")"; then
    echo "no such peer: $peer"; failed=1; continue
  fi
  rm -rf "$folder"
  "$PY" -m venv "$folder" || { failed=1; continue; }
  set -f  # the stars below are for pip
  {
    "$folder/bin/pip" install -q --disable-pip-version-check "$(torch_for "$peer")" setuptools wheel &&
    "$folder/bin/pip" install -q --disable-pip-version-check "$(torch_for "$peer")" $wanted
  } > "$folder/install.log" 2>&1 && touch "$folder/.ok"
  set +f
  if [ -f "$folder/.ok" ]; then
    echo "$peer: installed"
  else
    echo "$peer: FAILED: $(tail -n 3 "$folder/install.log")"; failed=1
  fi
done
exit $failed
