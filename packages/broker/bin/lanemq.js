#!/usr/bin/env node
// Stands here before the build does, so that an install can link the command.
import '../dist/src/cli/main.js';
