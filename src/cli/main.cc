#include "cli/command_line.h"

int main(int argc, char** argv) { return static_cast<int>(lamina::cli::RunCommandLine(argc, argv)); }
