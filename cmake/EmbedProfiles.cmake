# SPDX-License-Identifier: Apache-2.0
# Run as a script: writes OUTPUT, a source with the text of every file in FILES (separated by |), as
# driver/profiles/profile_texts.h declares it.
string(REPLACE "|" ";" FILES "${FILES}")
set(source "#include \"driver/profiles/profile_texts.h\"\nnamespace neuron::profiles {\n")
string(APPEND source "const ProfileText kProfileTexts[] = {\n")
foreach(file IN LISTS FILES)
  get_filename_component(name "${file}" NAME)
  string(REGEX REPLACE "\\.json$" "" name "${name}")
  file(READ "${file}" text)
  string(APPEND source "{\"${name}\", R\"PROFILE(${text})PROFILE\"},\n")
endforeach()
string(APPEND source "};\nconst size_t kProfileTextCount = sizeof(kProfileTexts) / sizeof(kProfileTexts[0]);\n}\n")
file(WRITE "${OUTPUT}" "${source}")
